/* Sets up the page, and starts. */

function start() {
  setUpTheme();
  setUpToken(); // before the others read the address
  setUpCalls();
  setUpAccess();
  setUpCandidate();
  byId("rules").ontoggle = showRules;
  setUpViews();
  byId("columns").append(...["State", "Server", "Why", ...Object.keys(CELLS)].map(text => make("span", { text })));
  byId("search").oninput = () => { toolsShown = TOOLS_AT_ONCE; searchTools(); };
  byId("more").onclick = () => { toolsShown *= 4; showTools(); };
  byId("pause").onclick = () => { paused = !paused; follow(); };
  document.addEventListener("visibilitychange", follow);
  // Ages grow even if nothing changes.
  setInterval(() => { if (following && known.servers) showServers(); }, 5000);
  follow();
  setUpResources();
}

start();
