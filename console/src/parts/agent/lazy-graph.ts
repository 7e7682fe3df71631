import { lazy } from "react";

/** The drawn graph. Its layout is a large script, which pages load when they show one. */
export const GraphView = lazy(() => import("./graph-view.tsx").then((file) => ({ default: file.GraphView })));
