/* The theme, and which view is shown. */

function setUpTheme() {
  const themes = ["auto", "light", "dark"];
  const apply = theme => {
    document.documentElement.dataset.theme = theme;
    setText(byId("theme"), `Theme: ${theme}`);
    byId("theme").onclick = () => apply(themes[(themes.indexOf(theme) + 1) % themes.length]);
    stored("localStorage", "toolgate-theme", theme);
  };
  apply(stored("localStorage", "toolgate-theme") ?? "auto");
}

function setUpViews() {
  const links = [...document.querySelectorAll("nav a")];
  let shown = null;
  const show = () => {
    // "#main" comes from the skip link and keeps the view.
    const current = links.find(link => link.hash === location.hash) ?? shown ?? links[0];
    if (current === shown) return;
    shown = current;
    for (const link of links) {
      link.ariaCurrent = link === current ? "page" : null;
      byId(`${link.hash.slice(1)}-view`).hidden = link !== current;
    }
    scrollTo(0, 0);
  };
  window.addEventListener("hashchange", show);
  show();
}
