// What makes the pages live. Everything that comes is text, and becomes text.
"use strict";
(() => {
  const said = document.getElementById("live");
  const list = document.querySelector("#executions[data-list=newest]");
  const changed = document.getElementById("changed");
  if (!said || !(list || changed)) return;
  const most = 200;
  let last = document.body.dataset.live, stream = null, again = 0;

  function say(text, on) {
    if (said.textContent !== text) said.textContent = text;
    said.classList.toggle("on", on);
  }

  // A page is not taken away from somebody who writes in it.
  function writing() {
    return document.activeElement?.closest("form") ||
      [...document.querySelectorAll("form.act input:not([type=hidden])")].some((i) => i.value !== i.defaultValue && i.type !== "checkbox" || i.checked !== i.defaultChecked);
  }

  function anew() {
    if (writing()) {
      if (changed) changed.hidden = false; else say("it has changed: load it anew", true);
    } else if (!again) {
      again = setTimeout(() => location.reload(), performance.now() < 5000 ? 3000 : 100);
    }
  }

  function fits(e) {
    const states = [...document.querySelectorAll("input[name=status][checked]")].map((i) => i.value);
    const type = list.dataset.type, text = list.dataset.text;
    return (!states.length || states.includes(e.status)) && (!type || e.type === type) &&
      (!text || [e.executionId, e.type, e.reason ?? ""].some((s) => s.includes(text)));
  }

  function stamp(t) { return t ? new Date(t).toISOString().slice(0, 19).replace("T", " ") : ""; }

  function cell(name, text) {
    const c = document.createElement(name);
    c.textContent = text ?? "";
    return c;
  }

  function row(e) {
    const r = document.createElement("tr");
    r.dataset.id = e.executionId;
    r.dataset.created = e.createdAt;
    r.className = "new";
    const head = cell("th"), link = cell("a", e.executionId), state = cell("td"), badge = cell("span", e.status), run = cell("td", e.run);
    head.scope = "row";
    link.href = "/executions/" + encodeURIComponent(e.executionId);
    head.append(link);
    badge.className = "status " + e.status.toLowerCase();
    state.append(badge);
    run.className = "number";
    r.append(head, state, cell("td", e.type), run, cell("td", stamp(e.createdAt)), cell("td", stamp(e.endedAt)), cell("td", e.reason));
    return r;
  }

  function place(e) {
    const body = list.tBodies[0], rows = [...body.rows];
    const old = rows.find((r) => r.dataset.id === e.executionId);
    if (!fits(e)) { old?.remove(); return; }
    const fresh = row(e);
    if (old) {
      const held = old.contains(document.activeElement);
      old.replaceWith(fresh);
      if (held) fresh.querySelector("a").focus();
      return;
    }
    const created = Date.parse(e.createdAt);
    const next = rows.find((r) => Date.parse(r.dataset.created) <= created);
    if (!next && rows.length >= 50) return; // it is older than what this page shows
    body.insertBefore(fresh, next ?? null);
    while (body.rows.length > most) body.lastElementChild.remove();
  }

  function open() {
    if (stream || document.hidden) return;
    stream = new EventSource("/live?after=" + encodeURIComponent(last));
    stream.onopen = () => say("live", true);
    stream.onerror = () => {
      say("not live at present", false);
      if (stream.readyState === EventSource.CLOSED) { stream = null; setTimeout(open, 30000); }
    };
    stream.addEventListener("changed", (m) => {
      last = m.lastEventId;
      const all = JSON.parse(m.data);
      if (changed && all.some((e) => e.executionId === changed.dataset.id)) anew();
      if (list) {
        all.forEach(place);
        document.getElementById("none").hidden = list.tBodies[0].rows.length > 0;
      }
    });
    stream.addEventListener("missed", (m) => { last = m.lastEventId; anew(); });
  }

  function close() { stream?.close(); stream = null; }

  document.addEventListener("visibilitychange", () => document.hidden ? close() : open());
  addEventListener("pagehide", close);
  addEventListener("pageshow", open);
  open();
})();
