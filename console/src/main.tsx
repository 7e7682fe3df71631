import { QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { ToastProvider } from "./parts/toasts.tsx";
import { router } from "./router.tsx";
import { queries } from "./server.ts";
import { SessionGate } from "./session.tsx";
import "./style/page.css";
import "./style/controls.css";
import "./style/parts.css";
import "./style/narrow.css";

createRoot(document.getElementById("root") as HTMLElement).render(
  <StrictMode>
    <QueryClientProvider client={queries}>
      <ToastProvider>
        <SessionGate>
          <RouterProvider router={router} />
        </SessionGate>
      </ToastProvider>
    </QueryClientProvider>
  </StrictMode>,
);
