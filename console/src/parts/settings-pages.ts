/** The pages of the workspace's settings, in the order of the menu. `admin`: only admins see the page. */
export const settingsPages = [
  { page: "listeners", text: "Listeners", admin: false },
  { page: "integrations", text: "Integrations", admin: false },
  { page: "providers", text: "OAuth providers", admin: false },
  { page: "webhooks", text: "Webhooks", admin: false },
  { page: "alerts", text: "Alerts", admin: false },
  { page: "keys", text: "API keys", admin: true },
  { page: "members", text: "Members", admin: true },
  { page: "quotas", text: "Quotas", admin: true },
  { page: "audit", text: "Audit log", admin: true },
] as const;

export type SettingsPageName = (typeof settingsPages)[number]["page"];
