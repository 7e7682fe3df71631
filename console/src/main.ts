import "./first-view.ts";
import { applyTheme } from "./theme.ts";
import "./style/tokens.css";
import "./style/fonts.css";
import "./style/base.css";
import "./style/parts.css";
import "./style/overlays.css";
import "./style/tables.css";
import "./style/shell.css";
import "./style/deployment.css";
import "./style/new.css";
import "./style/first.css";
import "./style/pages.css";
import "./style/deployments.css";
import "./style/charts.css";

applyTheme();

void import("./app.tsx").then(({ start }) => start());
