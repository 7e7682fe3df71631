import { Link, useParams } from "@tanstack/react-router";
import type { ComponentType } from "react";
import { Notice } from "../parts/notices.tsx";
import { usePageTitle } from "../parts/page-title.ts";
import { settingsPages } from "../parts/settings-pages.ts";
import { useSession } from "../session.tsx";
import { AlertsPage } from "./alerts.tsx";
import { AuditPage } from "./audit.tsx";
import { IntegrationsPage } from "./integrations.tsx";
import { KeysPage } from "./keys.tsx";
import { ListenersPage } from "./listeners.tsx";
import { MembersPage } from "./members.tsx";
import { ProvidersPage } from "./providers.tsx";
import { QuotasPage } from "./quotas.tsx";
import { WebhooksPage } from "./webhooks.tsx";

const pages: Record<string, ComponentType> = {
  alerts: AlertsPage,
  audit: AuditPage,
  integrations: IntegrationsPage,
  keys: KeysPage,
  listeners: ListenersPage,
  members: MembersPage,
  providers: ProvidersPage,
  quotas: QuotasPage,
  webhooks: WebhooksPage,
};

/** One page of the workspace's settings, beside the list of these pages. */
export function SettingsPage() {
  const { mayAdminister } = useSession();
  const { page = "" } = useParams({ strict: false }) as { page?: string };
  const Found = pages[page];
  usePageTitle(settingsPages.find((one) => one.page === page)?.text, "Settings");
  if (Found === undefined) return <Notice kind="warn">Page not found.</Notice>;
  return (
    <div className="settings">
      <nav aria-label="Settings">
        {settingsPages.map(
          ({ page: own, text, admin }) =>
            (!admin || mayAdminister) && (
              <Link
                key={own}
                to="/host/$page"
                params={{ page: own }}
                className="side-link"
                aria-current={own === page ? "page" : undefined}
              >
                {text}
              </Link>
            ),
        )}
      </nav>
      <div className="stack">
        <Found />
      </div>
    </div>
  );
}
