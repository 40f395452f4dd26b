"""The report on a pipeline, as one HTML page that opens offline, and as JSON.

`collect` reads the operational tables into plain records, `summary` draws conclusions from them, and
`json_document` and `html_page` write them as JSON and as HTML. In a notebook: `from framework.report.notebook
import report; report("mainstem.yml")`.
"""

DEFAULT_PAGE = "mainstem-report.html"
