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

let shownView = "";

/** Shows the view that the address names, as in `#calls?code=timeout`. */
function setUpViews() {
  const links = [...document.querySelectorAll("nav a")];
  const nameOf = link => link.hash.slice(1);
  const show = () => {
    const [name, parameters = ""] = location.hash.slice(1).split("?", 2);
    // "#main" comes from the skip link and keeps the view.
    const view = [name, shownView, nameOf(links[0])].find(view => links.some(link => nameOf(link) === view));
    if (view === "calls" && name === view) showFilter(parameters || shownView === view ? parameters : keptFilter());
    if (view === shownView) return;
    shownView = view;
    for (const link of links) {
      link.ariaCurrent = nameOf(link) === view ? "page" : null;
      byId(`${nameOf(link)}-view`).hidden = nameOf(link) !== view;
    }
    scrollTo(0, 0);
    if (known.servers) showServers();
    if (known.tools) showTools();
    showAccess();
    showProblems();
    refresh({}); // what this view needs and is old
  };
  window.addEventListener("hashchange", show);
  show();
}
