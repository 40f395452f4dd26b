"""The report: what a pipeline has done and how it stands, as one HTML page that opens offline, and as JSON.

`collect` reads the operational tables into plain records; `facts` draws conclusions from them; `document` and `page`
say them as JSON and as HTML. In a notebook: `from framework.report.notebook import report; report("mainstem.yml")`.
"""

DEFAULT_PAGE = "mainstem-report.html"
