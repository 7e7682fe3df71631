import { Link, useParams } from "@tanstack/react-router";
import type { ComponentType } from "react";
import { useCurrentInView } from "../parts/current-in-view.ts";
import { NotFound } from "../parts/not-found.tsx";
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
import { VariableGroupsPage } from "./variable-groups.tsx";
import { WebhooksPage } from "./webhooks.tsx";
import "../style/settings.css";

/** A map, because an address may name what every object has, such as `constructor`. */
const pages = new Map<string, ComponentType>(
  Object.entries({
    alerts: AlertsPage,
    audit: AuditPage,
    integrations: IntegrationsPage,
    keys: KeysPage,
    listeners: ListenersPage,
    members: MembersPage,
    providers: ProvidersPage,
    quotas: QuotasPage,
    "variable-groups": VariableGroupsPage,
    webhooks: WebhooksPage,
  }),
);

/** One page of the workspace's settings, beside the list of these pages. */
export function SettingsPage() {
  const { mayAdminister } = useSession();
  const { page = "" } = useParams({ strict: false }) as { page?: string };
  const Found = pages.get(page);
  const row = useCurrentInView(page);
  usePageTitle(settingsPages.find((one) => one.page === page)?.text, "Settings");
  const shown = settingsPages.filter(({ admin }) => !admin || mayAdminister);
  if (Found === undefined)
    return (
      <NotFound title="Page not found">The address leads to no page of this console. It may be mistyped.</NotFound>
    );
  return (
    <div className="settings">
      <nav ref={row} aria-label="Settings">
        {[...Map.groupBy(shown, ({ group }) => group)].map(([group, ofGroup]) => (
          <section key={group} className="settings-group" aria-label={group}>
            <h2 className="settings-group-name">{group}</h2>
            {ofGroup.map(({ page: own, text }) => (
              <Link
                key={own}
                to="/host/$page"
                params={{ page: own }}
                className="side-link"
                aria-current={own === page ? "page" : undefined}
              >
                {text}
              </Link>
            ))}
          </section>
        ))}
      </nav>
      <div className="stack">
        <Found />
      </div>
    </div>
  );
}
