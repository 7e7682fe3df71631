/** The pages of the workspace's settings, in the order of the menu. `admin`: only admins see the page. */
export const settingsPages = [
  { page: "members", text: "Members", group: "Workspace", admin: true },
  { page: "keys", text: "API keys", group: "Workspace", admin: true },
  { page: "quotas", text: "Quotas", group: "Workspace", admin: true },
  { page: "audit", text: "Audit log", group: "Workspace", admin: true },
  { page: "variable-groups", text: "Variable groups", group: "Workspace", admin: false },
  { page: "alerts", text: "Alerts", group: "Workspace", admin: false },
  { page: "listeners", text: "Listeners", group: "Connections", admin: false },
  { page: "integrations", text: "Integrations", group: "Connections", admin: false },
  { page: "providers", text: "OAuth providers", group: "Connections", admin: false },
  { page: "webhooks", text: "Webhooks", group: "Connections", admin: false },
] as const;
