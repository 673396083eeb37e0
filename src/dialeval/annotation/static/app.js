// Keys and comfort. Everything here can also be done without it: the page is a plain form.
"use strict";
(() => {
  document.documentElement.classList.add("js");
  const form = document.getElementById("answer");
  const undo = document.getElementById("undo");
  const say = document.getElementById("text");

  // One answer for one press, however often a finger trembles.
  for (const one of document.forms) {
    one.addEventListener("submit", (event) => {
      if (one.dataset.sent) event.preventDefault();
      one.dataset.sent = "yes";
      document.body.classList.add("busy");
    });
  }
  window.addEventListener("pageshow", () => {
    for (const one of document.forms) delete one.dataset.sent;
    document.body.classList.remove("busy");
  });

  // A long conversation: what is asked about comes into sight.
  const meant = document.querySelector(".rate .line.meant");
  if (meant && meant.getBoundingClientRect().bottom > window.innerHeight) meant.scrollIntoView({ block: "center" });

  if (form) {
    const boxes = [...form.querySelectorAll(".question")];

    // Questions that depend on an answer.
    const reveal = () => {
      for (const box of boxes) {
        if (!box.dataset.when) continue;
        const chosen = form.querySelector(`input[name="${box.dataset.when}"]:checked`);
        const asked = chosen !== null && !chosen.closest(".question").hidden
          && box.dataset.is.split(" ").includes(chosen.value);
        box.hidden = !asked;
        box.disabled = !asked;
      }
    };
    form.addEventListener("change", reveal);
    reveal();

    // Searching and marking: all candidates are here, so they need not be asked for.
    const search = form.querySelector("input[type=search]");
    const list = form.querySelector(".candidates");
    const none = form.querySelector(".none input");
    if (list && none) {
      list.addEventListener("change", () => { if (list.querySelector(":checked")) none.checked = false; });
      none.addEventListener("change", () => {
        if (none.checked) for (const one of list.querySelectorAll(":checked")) one.checked = false;
      });
    }
    if (search && list && list.dataset.all === "yes") {
      const rows = [...list.children].map((row) => [row, row.textContent.toLowerCase()]);
      const count = form.querySelector(".count");
      form.querySelector(".search button").hidden = true;
      const filter = () => {
        const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
        let seen = 0;
        for (const [row, text] of rows) {
          const fits = words.every((word) => text.includes(word));
          row.hidden = !fits && !row.querySelector("input:checked");
          if (fits) seen += 1;
        }
        count.textContent = words.length ? `${seen} found` : "";
      };
      search.addEventListener("input", filter);
      search.addEventListener("keydown", (event) => {
        if (event.key !== "Enter" && event.key !== "ArrowDown") return;
        event.preventDefault();
        const first = rows.find(([row]) => !row.hidden);
        if (first) first[0].querySelector("input").focus();
      });
      filter();
    }
    if (list) {
      list.addEventListener("keydown", (event) => {
        const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
        if (!step) return;
        const seen = [...list.querySelectorAll("li:not([hidden]) input")];
        const next = seen[seen.indexOf(document.activeElement) + step];
        event.preventDefault();
        (next || search || seen[0]).focus();
      });
    }
  }

  const isWriting = (element) => element.matches("textarea, input:not([type=radio]):not([type=checkbox])");
  const isAnswered = (box) => box.querySelector(":checked") !== null;

  // The question that a key is meant for: the one with the focus, else the first without an answer.
  const current = () => {
    const boxes = [...form.querySelectorAll(".question:not([hidden])")].filter((box) => box.querySelector("[data-key]"));
    const inside = document.activeElement.closest(".question");
    const next = boxes.find((box) => !isAnswered(box));
    if (inside && boxes.includes(inside) && !isAnswered(inside)) return inside;
    return next || (inside && boxes.includes(inside) ? inside : boxes[boxes.length - 1]);
  };

  document.addEventListener("keydown", (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey || event.isComposing) return;
    const writing = isWriting(event.target);
    if (event.key === "Escape" && writing) event.target.blur();
    if (writing) return;
    const key = event.key.toLowerCase();
    if (key === "u" && undo) {
      event.preventDefault();
      undo.requestSubmit();
    } else if (key === "/" && form && form.querySelector("input[type=search]")) {
      event.preventDefault();
      form.querySelector("input[type=search]").focus();
    } else if (event.key === "Enter" && form && !event.target.matches("button, a, summary")) {
      event.preventDefault();
      if (say && !say.value.trim()) say.focus();
      else form.requestSubmit(form.querySelector("button.first"));
    } else if (form && !document.body.classList.contains("desk")) {
      const box = current();
      const option = box && [...box.querySelectorAll("[data-key]")].find((one) => one.dataset.key === key);
      if (!option) return;
      event.preventDefault();
      option.checked = option.type === "checkbox" ? !option.checked : true;
      option.focus();
      option.dispatchEvent(new Event("change", { bubbles: true }));
      const following = current();
      if (following !== box) following.scrollIntoView({ block: "nearest" });
      else if (say && option.type === "radio") say.focus();
    }
  });

  // In a conversation the return key sends; with shift it breaks the line.
  if (say) {
    say.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      if (say.value.trim()) say.form.requestSubmit(say.form.querySelector("button.first"));
    });
  }
})();
