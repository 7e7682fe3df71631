import { CSPProvider } from "@base-ui/react/csp-provider";
import { Tooltip } from "@base-ui/react/tooltip";
import { QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { StrictMode, useEffect } from "react";
import { createRoot } from "react-dom/client";
import { ToastProvider } from "./parts/toasts.tsx";
import { DeploymentPage, router } from "./router.tsx";
import { queries } from "./server.ts";
import { SessionGate } from "./session.tsx";

/** Shows the console. */
export function start(): void {
  createRoot(document.getElementById("root") as HTMLElement).render(
    <StrictMode>
      {/* The console's content security policy forbids style elements. */}
      <CSPProvider disableStyleElements>
        <Tooltip.Provider delay={350}>
          <QueryClientProvider client={queries}>
            <ToastProvider>
              <SessionGate>
                <RouterProvider router={router} />
                <DeploymentPagePreload />
              </SessionGate>
            </ToastProvider>
          </QueryClientProvider>
        </Tooltip.Provider>
      </CSPProvider>
    </StrictMode>,
  );
}

/** The list shows links to the pages of deployments. Their scripts are there before a signed-in user follows one. */
function DeploymentPagePreload() {
  useEffect(() => whenIdle(() => void DeploymentPage.preload()), []);
  return null;
}

function whenIdle(act: () => void): void {
  if (typeof requestIdleCallback === "function") requestIdleCallback(act, { timeout: 5_000 });
  else setTimeout(act, 2_000);
}
