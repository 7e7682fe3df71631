import type { CommandSpec } from "../command.ts";

const group = ["<group>", "name, id, or unique prefix of an id"] as const;
const deployment = ["<deployment>", "name, id, or unique prefix of an id"] as const;

export const groupsCommand: CommandSpec = {
  name: "groups",
  summary: "Share variables between deployments",
  commands: [
    {
      name: "list",
      summary: "List the variable groups, and the deployments that use them",
      json: '{"groups": [VariableGroup]}',
      load: async () => (await import("./groups.ts")).groupsList,
    },
    {
      name: "show",
      summary: "Show the variables of a group, and which deployments have them",
      args: [group],
      json: "VariableGroup",
      load: async () => (await import("./groups.ts")).groupsShow,
    },
    {
      name: "set",
      summary: "Set variables of a group to values from a prompt or from stdin; a new name creates the group",
      args: [
        ["<group>", "name, also a new one, or id"],
        ["<variable...>", "names only; the values come from a prompt, or from stdin, several of them one on each line"],
      ],
      options: [["--plain", "not secret: everybody who may read the workspace sees the values"]],
      examples: [
        "pierhead groups set model-keys OPENAI_API_KEY",
        "pierhead groups set shop SHOP_URL --plain < url.txt",
      ],
      json: "VariableGroup",
      load: async () => (await import("./groups.ts")).groupsSet,
    },
    {
      name: "import",
      summary: "Add the variables of a dotenv file to a group; a new name creates the group",
      args: [
        ["<group>", "name, also a new one, or id"],
        ["<file>", "dotenv file; - is stdin"],
      ],
      options: [["--plain", "not secret: everybody who may read the workspace sees the values"]],
      examples: ["pierhead groups import model-keys .env"],
      json: "VariableGroup",
      load: async () => (await import("./groups.ts")).groupsImport,
    },
    {
      name: "unset",
      summary: "Remove variables from a group",
      args: [group, ["<variables...>", "names"]],
      json: "VariableGroup",
      load: async () => (await import("./groups.ts")).groupsUnset,
    },
    {
      name: "use",
      summary: "Set the groups of a deployment, and run its current code with their variables",
      args: [deployment, ["[groups...]", "the later one wins; without any, the deployment uses none"]],
      examples: ["pierhead groups use support model-keys shop"],
      json: "Deployment",
      load: async () => (await import("./groups.ts")).groupsUse,
    },
    {
      name: "deploy",
      summary: "Run the current code of every deployment that uses a group with its current variables",
      args: [group],
      examples: ["pierhead groups deploy model-keys"],
      json: '{"deployments": [Deployment]}',
      load: async () => (await import("./groups.ts")).groupsDeploy,
    },
    {
      name: "delete",
      summary: "Delete a group that no deployment uses",
      args: [group],
      json: '{"variable_group_id": string, "deleted": boolean}',
      load: async () => (await import("./groups.ts")).groupsDelete,
    },
  ],
};
