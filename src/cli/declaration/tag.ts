import type { Client } from "../../client/client.ts";
import type { Deployment } from "../../contract/deployments/deployment.ts";
import { everyPage } from "../terminal/choose.ts";
import { shellWord } from "../terminal/text.ts";
import { wrong } from "./read-object.ts";
import type { Step } from "./step.ts";

/** The tag that marks the deployments of one file: a tag of the workspace with one value. */
export interface FileTag {
  /** As the file has it: `TAG=VALUE`. */
  text: string;
  valueId: string;
  /** Deployments that have it, by name. Previews are left out, because they belong to their deployment. */
  tagged: Map<string, Deployment>;
}

/** Finds the tag of a file and the deployments that have it. @throws CliFailure with exit code 1 if there is no such tag. */
export async function findFileTag(client: Client, text: string, signal: AbortSignal): Promise<FileTag> {
  const at = text.indexOf("=");
  const [name, value] = [text.slice(0, at), text.slice(at + 1)];
  const tags = await everyPage((page) => client.listTags(page, { signal }));
  const found = tags.find((tag) => tag.name === name)?.values.find((one) => one.name === value);
  if (found === undefined) {
    throw wrong(
      `There is no tag ${text}.`,
      `An administrator creates it: pierhead admin tags add ${shellWord(name)} ${shellWord(value)}`,
    );
  }
  const tagged = new Map<string, Deployment>();
  for await (const one of client.all("listDeployments", { tag_value_ids: found.id }, { signal })) {
    if (!one.is_preview) tagged.set(one.name, one);
  }
  return { text, valueId: found.id, tagged };
}

/** Adds the tag of the file to what happens to a deployment, unless it has the tag. Its other tags stay. */
export async function withTag(
  client: Client,
  { name, current, step, tag }: { name: string; current: Deployment | undefined; step: Step | undefined; tag: FileTag },
  signal: AbortSignal,
): Promise<Step | undefined> {
  if (tag.tagged.has(name)) return step;
  const present =
    current === undefined ? [] : (await client.getDeploymentTags({ deployment_id: current.id }, { signal })).tags;
  const tagName = tag.text.slice(0, tag.text.indexOf("="));
  const other = present.find((one) => one.name === tagName);
  if (other !== undefined) {
    throw wrong(
      `${name} has the tag ${other.name}=${other.value}, so another file declares it.`,
      `Move it to this file: pierhead admin tags set ${name} ${shellWord(tag.text)}`,
    );
  }
  const change = step?.change ?? { name, action: "change", fields: [], variables: { set: [], removed: [] } };
  return {
    change: { ...change, fields: [...change.fields, { field: "tag", from: null, to: tag.text }] },
    async act(client, signal) {
      const made = step === undefined ? current : await step.act(client, signal);
      if (made === undefined) return undefined;
      const body = { tag_value_ids: [...present.map((one) => one.tag_value_id), tag.valueId] };
      await client.putDeploymentTags({ deployment_id: made.id, body }, { signal });
      return made;
    },
  };
}
