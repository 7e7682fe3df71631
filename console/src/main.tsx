import { CSPProvider } from "@base-ui/react/csp-provider";
import { Tooltip } from "@base-ui/react/tooltip";
import { QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { ToastProvider } from "./parts/toasts.tsx";
import { router } from "./router.tsx";
import { queries } from "./server.ts";
import { SessionGate } from "./session.tsx";
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

createRoot(document.getElementById("root") as HTMLElement).render(
  <StrictMode>
    {/* The console's content security policy forbids style elements. */}
    <CSPProvider disableStyleElements>
      <Tooltip.Provider delay={350}>
        <QueryClientProvider client={queries}>
          <ToastProvider>
            <SessionGate>
              <RouterProvider router={router} />
            </SessionGate>
          </ToastProvider>
        </QueryClientProvider>
      </Tooltip.Provider>
    </CSPProvider>
  </StrictMode>,
);
