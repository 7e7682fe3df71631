import { type Static, Type } from "typebox";
import { nameLike } from "../administration/organization.ts";
import { offsetQuery, resourcePage } from "../page.ts";
import { nullable, optional, timestamp, uuid } from "../schema.ts";

const groupName = nameLike("model-keys", "Unique in the workspace.");
const variableName = Type.String({ examples: ["OPENAI_API_KEY"] });

export const VariableGroup = Type.Object(
  {
    id: uuid(),
    name: groupName,
    version: Type.Integer({ description: "Grows with each change of the variables.", examples: [3] }),
    variables: Type.Array(
      Type.Object({
        name: variableName,
        value: nullable(Type.String(), "null: a secret, which is never shown again."),
        is_secret: Type.Boolean(),
      }),
      { description: "Sorted by name." },
    ),
    deployments: Type.Array(
      Type.Object({
        id: uuid(),
        name: Type.String({ examples: ["support-bot"] }),
        is_current: Type.Boolean({ description: "Whether its newest revision has the variables of this version." }),
      }),
      { description: "Deployments that use the group, sorted by name." },
    ),
    created_at: timestamp(),
    updated_at: timestamp(),
  },
  { $id: "VariableGroup", description: "Variables that several deployments of a workspace share." },
);
export type VariableGroup = Static<typeof VariableGroup>;

export const VariableGroupPage = resourcePage(VariableGroup, "VariableGroupPage");
export type VariableGroupPage = Static<typeof VariableGroupPage>;

export const VariableGroupPath = Type.Object({ variable_group_id: uuid("Group of your workspace.") });
export const ListVariableGroupsQuery = Type.Object(offsetQuery);

const GroupVariable = Type.Object(
  {
    name: variableName,
    value: Type.String({ examples: ["sk-…"] }),
    is_secret: optional(
      Type.Boolean(),
      "false: everybody who may read the workspace sees the value. Absent: as before; true for a new variable.",
    ),
  },
  { $id: "GroupVariable" },
);
export type GroupVariable = Static<typeof GroupVariable>;

export const CreateVariableGroup = Type.Object(
  { name: groupName, variables: optional(Type.Array(GroupVariable), "Absent: none yet.") },
  { $id: "CreateVariableGroup" },
);
export type CreateVariableGroup = Static<typeof CreateVariableGroup>;

export const PatchVariableGroup = Type.Object(
  {
    name: optional(groupName),
    set: optional(Type.Array(GroupVariable), "Variables to add or to replace."),
    remove: optional(Type.Array(Type.String()), "Names to remove. Unknown ones change nothing."),
  },
  { $id: "PatchVariableGroup" },
);
export type PatchVariableGroup = Static<typeof PatchVariableGroup>;

export const DeploymentVariableGroups = Type.Object(
  {
    groups: Type.Array(VariableGroup, {
      description: "If several groups have the same variable, the last group wins.",
    }),
  },
  { $id: "DeploymentVariableGroups" },
);
export type DeploymentVariableGroups = Static<typeof DeploymentVariableGroups>;

export const PutDeploymentVariableGroups = Type.Object(
  {
    variable_group_ids: Type.Array(uuid(), {
      description:
        "The groups that the deployment should use. If several of them have the same variable, the last group wins. Variables of the deployment itself win over all groups.",
    }),
  },
  { $id: "PutDeploymentVariableGroups" },
);
export type PutDeploymentVariableGroups = Static<typeof PutDeploymentVariableGroups>;
