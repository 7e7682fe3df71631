/** What a role may do, for the choice of one. */
export const roleTexts = {
  reader: "Reader: reads everything except the values of secrets",
  deployer: "Deployer: also deploys and deletes",
  admin: "Admin: also manages keys, members and listeners",
  caller: "Caller: only calls agents",
  agent: "Agent: only gets OAuth tokens of users",
} as const;
