import { deploymentArgument, yesOption } from "../arguments.ts";
import type { CommandSpec } from "../command.ts";

const answer = '{"deployment_id": string, "file": string}';

export const databaseCommand: CommandSpec = {
  name: "database",
  summary: "Back up and restore the PostgreSQL database of a deployment (operators)",
  commands: [
    {
      name: "backup",
      summary: "Write a consistent snapshot of the database into a file while the agent runs",
      args: [
        deploymentArgument,
        ["[file]", "default: a file in this directory, named after the deployment and the time"],
      ],
      examples: ["PIERHEAD_AGENT_POSTGRES_URL=postgresql://operator@db/postgres pierhead database backup support"],
      json: answer,
      load: async () => (await import("./database.ts")).databaseBackup,
    },
    {
      name: "restore",
      summary: "Replace the content of the database with a backup, completely or not at all",
      args: [
        deploymentArgument,
        ["<file>", "a file that pierhead database backup wrote, for this or another deployment"],
      ],
      options: [yesOption],
      examples: ["pierhead database restore support support.dump"],
      json: answer,
      load: async () => (await import("./database.ts")).databaseRestore,
    },
  ],
};
