import type { Tag } from "../../contract/administration/tag.ts";
import { findDeployment } from "../deployments/find-deployment.ts";
import { usageFailure } from "../failure.ts";
import type { Session } from "../session.ts";
import { choose, everyPage, tableOf } from "../terminal/choose.ts";
import { confirm } from "../terminal/prompt.ts";
import { shortId } from "../terminal/text.ts";

export async function tagsList(session: Session): Promise<void> {
  const tags = await allTags(session);
  session.answer({ tags }, () => {
    const rows = tags.map(({ id, name, values, description }) => [
      name,
      shortId(id),
      values.map((value) => value.name).join(", ") || "-",
      description ?? "",
    ]);
    return tableOf(session, ["TAG", "ID", "VALUES", "MEANING"], rows);
  });
}

/** Creates the tag if needed, and adds missing values. */
export async function tagsAdd(
  session: Session,
  [name = "", ...values]: string[],
  options: { description?: string },
): Promise<void> {
  const client = await session.client();
  const { signal } = session;
  const { description } = options;
  const known = (await allTags(session)).find((tag) => tag.name === name);
  if (known === undefined) {
    const body = { name, values, ...(description !== undefined && { description }) };
    const tag = await client.createTag({ body }, { signal });
    return session.answer(tag, () => tag.id);
  }
  const at = { tag_id: known.id };
  if (description !== undefined) await client.patchTag({ ...at, body: { description } }, { signal });
  const missing = values.filter((value) => !known.values.some((one) => one.name === value));
  for (const value of missing) await client.createTagValue({ ...at, body: { name: value } }, { signal });
  const tag = await client.getTag(at, { signal });
  session.answer(tag, () => tag.id);
}

/** Removes a tag, or only the given values, from the workspace and all its deployments. */
export async function tagsDelete(
  session: Session,
  [name = "", ...values]: string[],
  options: { yes?: boolean },
): Promise<void> {
  const client = await session.client();
  const { signal } = session;
  const tag = chooseTag(await allTags(session), name);
  const doomed = values.map((value) => chooseValue(tag, value));
  const shown = doomed.length === 0 ? `the tag ${tag.name}` : doomed.map((one) => `${tag.name}=${one.name}`).join(", ");
  if (!options.yes) await confirm(session, `Delete ${shown} and remove it from all deployments?`);
  const at = { tag_id: tag.id };
  if (doomed.length === 0) await client.deleteTag(at, { signal });
  for (const { id } of doomed) await client.deleteTagValue({ ...at, tag_value_id: id }, { signal });
  session.answer({ ...at, tag_value_ids: doomed.map(({ id }) => id), deleted: true }, () => undefined);
}

export async function tagsShow(session: Session, [name = ""]: string[]): Promise<void> {
  const client = await session.client();
  const { id } = await findDeployment(session, name);
  const { tags } = await client.getDeploymentTags({ deployment_id: id }, { signal: session.signal });
  session.answer({ deployment_id: id, tags }, () => tableOf(session, ["TAG", "VALUE"], tags.map(pairOf)));
}

export async function tagsSet(session: Session, [name = "", ...pairs]: string[]): Promise<void> {
  const client = await session.client();
  const { id } = await findDeployment(session, name);
  const body = { tag_value_ids: await tagValueIds(session, pairs) };
  const { tags } = await client.putDeploymentTags({ deployment_id: id, body }, { signal: session.signal });
  session.answer({ deployment_id: id, tags }, () => tableOf(session, ["TAG", "VALUE"], tags.map(pairOf)));
}

const pairOf = ({ name, value }: { name: string; value: string }) => [name, value];

/** Resolves `team=search` to the id of the value. */
export async function tagValueIds(session: Session, pairs: readonly string[]): Promise<string[]> {
  if (pairs.length === 0) return [];
  const tags = await allTags(session);
  return pairs.map((pair) => {
    const at = pair.indexOf("=");
    if (at < 1) throw usageFailure(`"${pair}" is not TAG=VALUE.`);
    return chooseValue(chooseTag(tags, pair.slice(0, at)), pair.slice(at + 1)).id;
  });
}

const chooseTag = (tags: readonly Tag[], name: string) =>
  choose(tags, name, { what: "tag", nameOf: (tag) => tag.name });

const chooseValue = (tag: Tag, value: string) =>
  choose(tag.values, value, { what: `value of ${tag.name}`, nameOf: ({ name }) => name });

async function allTags(session: Session): Promise<Tag[]> {
  const client = await session.client();
  return everyPage((page) => client.listTags(page, { signal: session.signal }));
}
