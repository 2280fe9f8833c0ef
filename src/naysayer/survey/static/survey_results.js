// The owner's page: pick a cross-table without leaving the page's place; predictions are learned while the rest shows.

for (const select of document.querySelectorAll("form.pick select")) {
  select.addEventListener("change", () => select.form.requestSubmit());
}

for (const box of document.querySelectorAll("[data-prediction]")) {
  try {
    const response = await fetch(box.dataset.prediction, { cache: "no-store" });
    if (!response.ok) throw new Error();
    box.innerHTML = await response.text(); // a page of our own server's, where all texts are escaped
  } catch {
    box.textContent = "This could not be learned just now. Reload the page to try again.";
  }
}
