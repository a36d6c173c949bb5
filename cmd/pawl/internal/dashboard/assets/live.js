"use strict";

// Replaces the part of the page that shows the store by each version that the server
// sends. Elements that are still there are kept, so that focus, selection, scroll
// position, opened details and half-typed forms survive.

(() => {
  const region = document.getElementById("region");
  const link = document.getElementById("link");
  const filter = document.getElementById("filter");
  const retryAfter = 5000; // milliseconds, if the server refuses a stream
  let source = null;
  let retry = 0;

  // key identifies an element among its siblings in both versions.
  function key(node) {
    if (node.nodeType !== Node.ELEMENT_NODE) return "";
    const id = node.getAttribute("id"); // a form's property may be an input of that name
    if (id) return node.localName + "#" + id;
    return node.dataset.key ? node.localName + " " + node.dataset.key : "";
  }

  // selected are the nodes in which text that the user has selected begins and ends. It
  // is asked for once, before anything changes: each time it makes the browser compute
  // the layout.
  let selected = [];

  function selection() {
    const s = document.getSelection();
    return s && !s.isCollapsed ? [s.anchorNode, s.focusNode] : [];
  }

  // inUse reports whether the user works with a form. It then keeps what it showed when
  // the user began, also the token: the server refuses it if the lock has changed hands.
  function inUse(form) {
    if (form.localName !== "form" || !form.hasAttribute("data-keep")) return false;
    if (form.contains(document.activeElement)) return true;
    return [...form.querySelectorAll("input:not([type=hidden])")].some((i) => (i.type === "radio" ? i.checked : i.value !== ""));
  }

  function syncAttributes(old, now) {
    for (const a of [...old.attributes]) {
      if (!now.hasAttribute(a.name) && !(old.localName === "details" && a.name === "open")) old.removeAttribute(a.name);
    }
    for (const a of now.attributes) {
      if (old.localName === "details" && a.name === "open") continue;
      if (old.getAttribute(a.name) !== a.value) old.setAttribute(a.name, a.value);
    }
  }

  // sync makes an element like the one of the new version.
  function sync(old, now) {
    if (inUse(old)) return;
    syncAttributes(old, now);
    const keyed = new Map();
    for (const child of old.childNodes) {
      if (key(child)) keyed.set(key(child), child);
    }
    let at = old.firstChild;
    for (const next of [...now.childNodes]) {
      const k = key(next);
      let match = null;
      if (k) {
        match = keyed.get(k) || null;
        keyed.delete(k);
      } else if (at && !key(at) && at.nodeType === next.nodeType && at.nodeName === next.nodeName) {
        match = at;
      }
      if (!match) {
        old.insertBefore(document.importNode(next, true), at);
        continue;
      }
      at = place(old, match, at);
      if (match.nodeType === Node.ELEMENT_NODE) sync(match, next);
      else if (match.nodeValue !== next.nodeValue && !selected.includes(match)) match.nodeValue = next.nodeValue;
    }
    while (at) {
      const gone = at;
      at = at.nextSibling;
      if (!inUse(gone)) gone.remove();
    }
  }

  // place puts a child before at and returns what follows it. A child with the focus
  // stays where it is, and those before it move behind it: moving it would take the
  // focus away.
  function place(parent, child, at) {
    if (child === at) return child.nextSibling;
    if (parent.moveBefore) {
      parent.moveBefore(child, at);
      return at;
    }
    if (!child.contains(document.activeElement)) {
      parent.insertBefore(child, at);
      return at;
    }
    const after = child.nextSibling;
    while (at !== child) {
      const following = at.nextSibling;
      parent.insertBefore(at, after);
      at = following;
    }
    return child.nextSibling;
  }

  function show(html) {
    const parsed = new DOMParser().parseFromString(html, "text/html").getElementById("region");
    if (!parsed) return;
    const focused = region.contains(document.activeElement);
    selected = selection();
    sync(region, parsed);
    if (focused && !region.contains(document.activeElement)) document.getElementById("main").focus({ preventScroll: true });
  }

  function say(text) {
    if (link.textContent !== text) link.textContent = text;
    if (text) region.classList.add("old");
  }

  function connect() {
    clearTimeout(retry);
    if (source) source.close();
    source = new EventSource(region.dataset.events);
    source.addEventListener("region", (event) => {
      say("");
      show(event.data);
    });
    source.addEventListener("error", () => {
      say("No connection to pawl serve. What is shown is old; trying again.");
      if (source.readyState === EventSource.CLOSED) retry = setTimeout(connect, retryAfter);
    });
  }

  function disconnect() {
    clearTimeout(retry);
    if (source) source.close();
    source = null;
  }

  // Hidden tabs do not listen: a browser has only a few connections to one server.
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) disconnect();
    else connect();
  });
  window.addEventListener("pagehide", disconnect);
  window.addEventListener("pageshow", (event) => {
    if (event.persisted) connect();
  });

  if (filter) {
    let typing = 0;
    const apply = () => {
      const events = new URL(region.dataset.events, location.href);
      const address = new URL(location.href);
      for (const u of [events, address]) {
        u.searchParams.delete("from");
        if (filter.value) u.searchParams.set("q", filter.value);
        else u.searchParams.delete("q");
      }
      region.dataset.events = events.pathname + events.search;
      history.replaceState(null, "", address);
      connect();
    };
    filter.addEventListener("input", () => {
      clearTimeout(typing);
      typing = setTimeout(apply, 150);
    });
    filter.form.addEventListener("submit", (event) => {
      event.preventDefault();
      clearTimeout(typing);
      apply();
    });
  }

  if (!document.hidden) connect();
})();
