"use strict";
(() => {
  const root = document.documentElement;
  const remembered = {
    read() { try { return localStorage.getItem("mainstem-theme"); } catch { return null; } },
    write(theme) { try { localStorage.setItem("mainstem-theme", theme); } catch { /* no storage here: the choice lasts as long as the page */ } },
  };
  const theme = remembered.read();
  if (theme === "light" || theme === "dark") root.dataset.theme = theme;

  document.addEventListener("DOMContentLoaded", () => { themes(); filter(); reveal(); document.querySelectorAll("table.data").forEach(sortable); });

  function themes() {
    const field = document.getElementById("theme");
    field.hidden = false;
    field.querySelectorAll("input").forEach((input) => {
      input.checked = input.value === root.dataset.theme;
      input.addEventListener("change", () => { root.dataset.theme = input.value; remembered.write(input.value); });
    });
  }

  function filter() {
    const input = document.getElementById("filter"), said = document.getElementById("matches");
    const rows = [...document.querySelectorAll("[data-row]")].map((node) => ({ node, text: node.textContent.toLowerCase() }));
    let due = 0;
    const apply = () => {
      const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      let count = 0;
      for (const row of rows) {
        const fits = words.every((word) => row.text.includes(word));
        row.node.hidden = !fits;
        count += fits ? 1 : 0;
      }
      const isOn = words.length > 0, isEmpty = (node) => isOn && !node.querySelector("[data-row]:not([hidden])");
      root.classList.toggle("filtered", isOn);
      document.querySelectorAll(".scroll, [data-group], main > section:not(#summary)").forEach((node) => { node.hidden = isEmpty(node); });
      document.querySelectorAll(".trends").forEach((node) => { node.hidden = isOn; });
      document.querySelectorAll("nav.sections a").forEach((link) => { link.hidden = document.querySelector(link.hash).hidden; });
      document.getElementById("no-match").hidden = !isOn || count > 0;
      document.querySelectorAll("details.more[data-group]").forEach((more) => {
        if (isOn) { more.dataset.was ??= more.open ? "open" : ""; more.open = true; }
        else if (more.dataset.was !== undefined) { more.open = more.dataset.was === "open"; delete more.dataset.was; }
      });
      said.textContent = words.length ? `${count.toLocaleString("en")} of ${rows.length.toLocaleString("en")}` : "";
    };
    input.disabled = false;
    input.addEventListener("input", () => { cancelAnimationFrame(due); due = requestAnimationFrame(apply); });
    document.addEventListener("keydown", (event) => {
      if (event.key === "/" && !event.ctrlKey && !event.metaKey && !event.altKey && !/^(INPUT|TEXTAREA)$/.test(document.activeElement.tagName)) {
        event.preventDefault();
        input.focus();
        input.select();
      } else if (event.key === "Escape" && (document.activeElement === input || input.value)) {
        input.value = "";
        apply();
        input.blur();
      }
    });
  }

  // the panel that the address names is open, and so are the folds around it
  function reveal() {
    const open = () => {
      let node = null;
      try { node = document.getElementById(decodeURIComponent(location.hash.slice(1))); } catch { /* no name */ }
      for (let at = node; at; at = at.parentElement) if (at.tagName === "DETAILS") at.open = true;
      if (node?.tagName === "DETAILS") node.scrollIntoView();
    };
    addEventListener("hashchange", open);
    document.addEventListener("click", (event) => { if (event.target.closest?.("a")?.hash === location.hash) open(); });
    open();
  }

  function sortable(table) {
    const heads = [...table.tHead.rows[0].cells], body = table.tBodies[0];
    if (body.rows.length < 2) return;
    heads.forEach((head, at) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const isNumber = body.rows[0].cells[at].hasAttribute("data-v");
        const was = head.getAttribute("aria-sort");
        const down = was ? was === "ascending" : isNumber;
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        const value = (row) => (isNumber ? Number(row.cells[at].dataset.v) : row.cells[at].textContent.trim());
        const order = isNumber ? (a, b) => a - b : new Intl.Collator("en", { numeric: true }).compare;
        const rows = [...body.rows].map((row) => [value(row), row]).sort((a, b) => (down ? order(b[0], a[0]) : order(a[0], b[0])));
        body.append(...rows.map((pair) => pair[1]));
      });
    });
  }
})();
