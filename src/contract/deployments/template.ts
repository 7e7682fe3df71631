import { type Static, Type } from "typebox";

/** Project to start from, included with this server. */
export const Template = Type.Object(
  {
    id: Type.String({ description: "Value for source_config.template_id.", examples: ["node-server"] }),
    name: Type.String({ examples: ["Node server"] }),
    description: Type.String({ examples: ["A server in plain Node."] }),
  },
  { $id: "Template" },
);
export type Template = Static<typeof Template>;

export const TemplateList = Type.Object(
  { templates: Type.Array(Template, { description: "Sorted by id." }) },
  { $id: "TemplateList" },
);
