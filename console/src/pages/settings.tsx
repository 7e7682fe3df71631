import { useParams } from "@tanstack/react-router";
import type { ComponentType } from "react";
import { Notice } from "../parts/notices.tsx";
import { AuditPage } from "./audit.tsx";
import { IntegrationsPage } from "./integrations.tsx";
import { KeysPage } from "./keys.tsx";
import { ListenersPage } from "./listeners.tsx";
import { MembersPage } from "./members.tsx";
import { ProvidersPage } from "./providers.tsx";
import { QuotasPage } from "./quotas.tsx";
import { WebhooksPage } from "./webhooks.tsx";

const pages: Record<string, ComponentType> = {
  audit: AuditPage,
  integrations: IntegrationsPage,
  keys: KeysPage,
  listeners: ListenersPage,
  members: MembersPage,
  providers: ProvidersPage,
  quotas: QuotasPage,
  webhooks: WebhooksPage,
};

export function SettingsPage() {
  const { page = "" } = useParams({ strict: false }) as { page?: string };
  const Found = pages[page];
  return Found === undefined ? <Notice kind="warn">Page not found.</Notice> : <Found />;
}
