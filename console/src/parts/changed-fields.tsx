import { shortId } from "./text.ts";

const words: Record<string, string> = {
  source: "Kind of source",
  repo_commit_sha: "Commit",
  repo_ref: "Branch or tag",
  repo_url: "Repository",
  image_uri: "Image",
  image_version: "Image version",
  source_tarball_path: "Upload",
  template_id: "Template",
  langgraph_config_path: "Config file",
  install_command: "Install command",
  build_command: "Build command",
  engine: "Engine",
  artifact_digest: "Build",
  build_on_push: "Deploy every push",
  resource_spec: "Size",
  rollout: "Rollout",
  cpu: "CPU",
  memory_mb: "Memory (MB)",
  min_scale: "Smallest number of replicas",
  max_scale: "Largest number of replicas",
};

/** Returns a field of the API as people call it. */
const fieldText = (name: string): string => words[name] ?? name.replaceAll("_", " ");

const shown = (value: unknown) =>
  value === null || value === undefined
    ? "–"
    : typeof value !== "string"
      ? JSON.stringify(value)
      : /^(?:sha256:)?[0-9a-f]{40,64}$/.test(value)
        ? shortId(value.replace("sha256:", ""))
        : value;

/** The fields that differ, each with its value before and after. */
export function ChangedFields(props: {
  /** Head of the column with the earlier value. */
  before: string;
  changes: readonly { name: string; before?: unknown; after?: unknown }[];
}) {
  return (
    <table>
      <thead>
        <tr>
          <th>Field</th>
          <th>{props.before}</th>
          <th>After</th>
        </tr>
      </thead>
      <tbody>
        {props.changes.map(({ name, before, after }) => (
          <tr key={name}>
            <td className="field-name">{fieldText(name)}</td>
            <td className="removed">{shown(before)}</td>
            <td className="added">{shown(after)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
