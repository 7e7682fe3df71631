import { type Static, Type } from "typebox";
import { offsetQuery, resourcePage } from "../page.ts";
import { nullable, optional, timestamp, uuid } from "../schema.ts";
import { nameLike } from "./organization.ts";

const tagName = nameLike("team", "Unique in the workspace.");
const valueName = nameLike("search", "Unique among the values of its tag.");

export const TagValue = Type.Object(
  { id: uuid("Value for `tag_value_ids`."), name: valueName, created_at: timestamp() },
  { $id: "TagValue" },
);
export type TagValue = Static<typeof TagValue>;

/** Key with its values, such as `team` with `billing` and `search`. */
export const Tag = Type.Object(
  {
    id: uuid(),
    name: tagName,
    description: nullable(Type.String()),
    created_at: timestamp(),
    values: Type.Array(TagValue, { description: "Sorted by name." }),
  },
  { $id: "Tag" },
);
export type Tag = Static<typeof Tag>;

export const TagPage = resourcePage(Tag, "TagPage");
export const TagPath = Type.Object({ tag_id: uuid("The tag.") });
export const TagValuePath = Type.Object({ tag_id: uuid("The tag."), tag_value_id: uuid("The value.") });
export const ListTagsQuery = Type.Object(offsetQuery);

const description = Type.String({ maxLength: 1_024 });

export const CreateTag = Type.Object(
  {
    name: tagName,
    description: optional(description),
    values: optional(Type.Array(valueName), "Initial values."),
  },
  { $id: "CreateTag" },
);
export type CreateTag = Static<typeof CreateTag>;

export const PatchTag = Type.Object(
  { name: optional(tagName), description: optional(description) },
  { $id: "PatchTag" },
);
export type PatchTag = Static<typeof PatchTag>;

export const CreateTagValue = Type.Object({ name: valueName }, { $id: "CreateTagValue" });
export const PatchTagValue = Type.Object({ name: valueName }, { $id: "PatchTagValue" });

/** Tags of one deployment, by key and value. */
export const DeploymentTags = Type.Object(
  {
    tags: Type.Array(Type.Object({ tag_id: uuid(), tag_value_id: uuid(), name: tagName, value: valueName })),
  },
  { $id: "DeploymentTags" },
);
export type DeploymentTags = Static<typeof DeploymentTags>;

export const PutDeploymentTags = Type.Object(
  { tag_value_ids: Type.Array(uuid(), { description: "The complete set of values that the deployment should have." }) },
  { $id: "PutDeploymentTags" },
);
export type PutDeploymentTags = Static<typeof PutDeploymentTags>;
