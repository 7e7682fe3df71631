import type { CommandSpec } from "../command.ts";

const deployment = ["<deployment>", "name, id, or unique beginning of an id"] as const;
const answer = '{"deployment_id": string, "file": string}';

export const databaseCommand: CommandSpec = {
  name: "database",
  summary: "Back up and restore the PostgreSQL database of a deployment, as the operator",
  commands: [
    {
      name: "backup",
      summary: "Write the database into a file, as of one moment, while its agent goes on",
      args: [deployment, ["[file]", "default: a file here, with the deployment's name and the time"]],
      examples: ["PIERHEAD_AGENT_POSTGRES_URL=postgresql://operator@db/postgres pierhead database backup support"],
      json: answer,
      load: async () => (await import("./database.ts")).databaseBackup,
    },
    {
      name: "restore",
      summary: "Replace what is in the database by what a backup says: all of it or nothing",
      args: [deployment, ["<file>", "made by pierhead database backup, of this deployment or another"]],
      options: [["-y, --yes", "do not ask"]],
      examples: ["pierhead database restore support support.dump"],
      json: answer,
      load: async () => (await import("./database.ts")).databaseRestore,
    },
  ],
};
