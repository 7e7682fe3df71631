import { type Static, Type } from "typebox";
import { literals, nullable, optional } from "../schema.ts";

const configPathField = optional(
  Type.String({ maxLength: 4_096, examples: ["agents/support/langgraph.json"] }),
  "Configuration to read, as in langgraph_config_path. Absent: the server looks at the root of the source.",
);

/** The source to look into: a repository, or a template. */
export const DetectSource = Type.Object(
  {
    repo_url: optional(
      Type.String({ minLength: 1, maxLength: 2_048, examples: ["https://github.com/acme/support-bot"] }),
      "Repository, as in source_config.repo_url.",
    ),
    ref: optional(
      Type.String({ minLength: 1, maxLength: 255, examples: ["main"] }),
      "Ref, as in repo_ref. Absent: the default branch.",
    ),
    integration_id: optional(Type.String({ format: "uuid" }), "Integration that reads a private repository."),
    template_id: optional(
      Type.String({ minLength: 1, maxLength: 64, examples: ["node-server"] }),
      "Template, instead of a repository.",
    ),
    config_path: configPathField,
  },
  { $id: "DetectSource" },
);
export type DetectSource = Static<typeof DetectSource>;

export const DetectArchiveQuery = Type.Object({
  config_path: Type.Optional(
    Type.String({
      maxLength: 4_096,
      description: "Configuration to read. Absent: the server looks at the root of the archive.",
      examples: ["langgraph.json"],
    }),
  ),
});

export const DetectedVariable = Type.Object(
  {
    name: Type.String({ examples: ["OPENAI_API_KEY"] }),
    example: Type.String({ description: "Value in that file; empty for none.", examples: ["sk-..."] }),
    from: Type.String({ description: "File that names the variable.", examples: [".env.example"] }),
  },
  { $id: "DetectedVariable" },
);
export type DetectedVariable = Static<typeof DetectedVariable>;

/** What Pierhead would build from a source. */
export const Detection = Type.Object(
  {
    found: nullable(
      Type.String({ examples: ["langgraph.json: 2 graphs, Python 3.12, uv.lock"] }),
      "What was found, in one line. null: no server was found; `problem` says why.",
    ),
    kind: nullable(
      literals(["langgraph", "command", "dockerfile"]),
      "An agent of LangGraph, a server that a command starts, or an image built from a Dockerfile.",
    ),
    framework: nullable(Type.String({ examples: ["LangGraph"] })),
    because: nullable(
      Type.String({ examples: ["fastapi in pyproject.toml, app in main.py"] }),
      "How a server without a configuration was recognized.",
    ),
    config_path: nullable(Type.String({ examples: ["langgraph.json"] }), "Value for langgraph_config_path."),
    graphs: Type.Array(
      Type.Object({ id: Type.String({ examples: ["agent"] }), path: Type.String({ examples: ["./agent.py:graph"] }) }),
    ),
    language: nullable(literals(["python", "node"])),
    python_version: nullable(Type.String({ examples: ["3.12"] }), "Version that the project names. null: any."),
    node_version: nullable(Type.String({ examples: ["24"] }), "Version that the server would run on."),
    package_manager: nullable(literals(["uv", "poetry", "pip", "npm", "yarn", "pnpm", "bun"])),
    lock_file: nullable(Type.String({ examples: ["uv.lock"] })),
    build_commands: Type.Array(Type.String({ examples: ["npm run build"] }), {
      description: "Commands that run after the installation.",
    }),
    start_command: nullable(Type.String({ examples: ["uvicorn main:app --host $HOST --port $PORT"] })),
    variables: Type.Array(DetectedVariable, {
      description: "Variables that an example file beside the configuration names.",
    }),
    notes: Type.Array(Type.String({ examples: ["image_distro is for container images and has no effect here."] }), {
      description: "Settings that the build would ignore or change.",
    }),
    problem: nullable(
      Type.Object({
        reason: Type.String({ examples: ["ConfigMissing"] }),
        message: Type.String({
          examples: ["langgraph.json not found in the source. The source contains agent/langgraph.json."],
          description: "Why a build would fail, and what to do.",
        }),
      }),
      "null: a build can begin.",
    ),
    configs: Type.Array(Type.String({ examples: ["langgraph.json"] }), {
      description: "Configurations in the source, nearest to the root first. At most 10.",
    }),
    ref: nullable(Type.String({ examples: ["main"] }), "Ref that was read. null: the source is no repository."),
    commit_sha: nullable(Type.String({ examples: ["da1560886d4f094c3e6c9ef40349f7d38b5d27d7"] })),
  },
  { $id: "Detection" },
);
export type Detection = Static<typeof Detection>;
