import type { GitSettings } from "../../contract/integrations/git-settings.ts";
import { findDeployment } from "../deployments/find-deployment.ts";
import { usageFailure } from "../failure.ts";
import type { Session } from "../session.ts";
import { harmless } from "../terminal/terminal.ts";
import { age, parseWhole } from "../terminal/text.ts";

interface Options {
  build?: string;
  include?: string;
  exclude?: string;
  previews?: string;
  label?: string;
  maxPreviews?: string;
  idleHours?: string;
}

/** Shows how a deployment handles pushes and pull requests, after applying the options. */
export async function pushes(session: Session, [name = ""]: string[], options: Options): Promise<void> {
  const client = await session.client();
  const found = await findDeployment(session, name);
  const ids = { deployment_id: found.id };
  const isBuilt = options.build === undefined ? found.source_config.build_on_push : isOn(options.build);
  if (options.build !== undefined) {
    const body = { source_config: { build_on_push: isBuilt } };
    await client.patchDeployment({ ...ids, body }, { signal: session.signal });
  }
  const body = bodyOf(options);
  const settings =
    Object.keys(body).length === 0
      ? await client.getGitSettings(ids, { signal: session.signal })
      : await client.patchGitSettings({ ...ids, body }, { signal: session.signal });
  session.answer(settings, () => shown(settings, isBuilt === true));
}

function bodyOf({ include, exclude, previews, label, maxPreviews, idleHours }: Options) {
  const preview = {
    ...(previews !== undefined && previewsOf(previews)),
    ...(label !== undefined && { label }),
    ...(maxPreviews !== undefined && { max_previews: parseWhole(maxPreviews) }),
    ...(idleHours !== undefined && { idle_ttl_hours: parseWhole(idleHours) }),
  };
  return {
    ...(include !== undefined && { include_paths: include === "all" ? null : listed(include) }),
    ...(exclude !== undefined && { exclude_paths: exclude === "none" ? null : listed(exclude) }),
    ...(previews === "off" ? { preview: null } : Object.keys(preview).length > 0 && { preview }),
  };
}

function previewsOf(text: string): { enabled: boolean; trigger?: "all" | "label" } {
  if (text === "label") return { enabled: true, trigger: "label" };
  return isOn(text) ? { enabled: true, trigger: "all" } : { enabled: false };
}

function isOn(text: string): boolean {
  if (text === "on" || text === "off") return text === "on";
  throw usageFailure(`"${text}" must be on or off.`);
}

const listed = (text: string) =>
  text
    .split(",")
    .map((one) => one.trim())
    .filter((one) => one !== "");

function shown({ include_paths, exclude_paths, preview, followed }: GitSettings, isBuilt: boolean): string {
  const previews =
    preview === null || !preview.enabled
      ? "off"
      : `${preview.trigger === "all" ? "every pull request" : `label ${preview.label}`}, ${preview.max_previews} at most, deleted after ${preview.idle_ttl_hours} h without use`;
  const rows = [
    ["Builds pushes", isBuilt ? "yes" : "no"],
    ["Included files", include_paths?.join(", ") ?? "all"],
    ["Ignored files", exclude_paths?.join(", ") ?? "none"],
    ["Previews", previews],
  ];
  if (followed !== null) {
    const { ref, commit_sha: commit, polled_at: polledAt, error } = followed;
    rows.push(["Branch", `${ref} at ${commit?.slice(0, 12) ?? "no commit"}, polled ${age(polledAt)} ago`]);
    if (error !== null) rows.push(["Problem", error]);
  }
  return rows.map(([label = "", value = ""]) => `${label.padEnd(18)} ${harmless(value)}`).join("\n");
}
