import "./first-view.ts";
import { applyTheme } from "./theme.ts";
import "./style/tokens.css";
import "./style/fonts.css";
import "./style/base.css";
import "./style/parts.css";
import "./style/overlays.css";
import "./style/tables.css";
import "./style/shell.css";
import "./style/side.css";
import "./style/heads.css";
import "./style/navigation.css";
import "./style/deployment.css";
import "./style/new.css";
import "./style/first.css";
import "./style/pages.css";
import "./style/variables.css";
import "./style/build-log.css";
import "./style/deployments.css";
import "./style/charts.css";

applyTheme();

/** Set while the page loads for the second time. */
const mark = "pierhead-loads-again";

// Without this file there is no page. A connection that broke off for a moment gets a second try, and then a page with the reason.
void import("./app.tsx").then(
  ({ start }) => {
    sessionStorage.removeItem(mark);
    start();
  },
  () => {
    const isFirst = sessionStorage.getItem(mark) === null;
    if (isFirst) {
      sessionStorage.setItem(mark, "yes");
      setTimeout(() => location.reload(), 1_000);
      return;
    }
    sessionStorage.removeItem(mark);
    const text = document.createElement("p");
    text.textContent = "The console could not be loaded. Check the connection to the server, then reload this page.";
    document.getElementById("root")?.replaceChildren(text);
  },
);
