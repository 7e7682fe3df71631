import type { Principal } from "../../auth/principal.ts";
import type { Tag, TagValue } from "../../contract/administration/tag.ts";
import { errors } from "../../contract/error.ts";
import { operations } from "../../contract/operations.ts";
import { listTagsOf, putTagsOf } from "../../store/deployments/deployment-tags.ts";
import {
  changeTag,
  changeTagValue,
  createTag,
  createTagValue,
  deleteTag,
  deleteTagValue,
  findTag,
  listTags,
  type TagRow,
  type TagValueRow,
} from "../../store/tenants/tags.ts";
import { readDeployment } from "../deployments/deployment-routes.ts";
import { type Api, route } from "../http/route.ts";
import { withoutNulls } from "../validation/without-nulls.ts";

/** Adds the routes of a workspace's tags, and of the tags on a deployment. */
export function addTagRoutes(api: Api): void {
  addTags(api);
  addTagValues(api);
  addDeploymentTags(api);
}

function addTags(api: Api): void {
  const { db } = api.deps;

  route(api, operations.listTags, async ({ principal, query }) => {
    const rows = await listTags(db, principal.tenantId, query);
    return { resources: rows.map(tagOf), offset: query.offset + rows.length };
  });

  route(api, operations.createTag, async ({ principal, body }) => {
    const { name, description = null, values } = body;
    return tagOf(await createTag(db, ownerOf(principal), { name, description, values: values ?? [] }));
  });

  route(api, operations.getTag, async ({ principal, params }) =>
    tagOf(known(await findTag(db, principal.tenantId, params.tag_id), params.tag_id)),
  );

  route(api, operations.patchTag, async ({ principal, params, body }) =>
    tagOf(known(await changeTag(db, ownerOf(principal), params.tag_id, withoutNulls(body)), params.tag_id)),
  );

  route(api, operations.deleteTag, async ({ principal, params }) => {
    if (!(await deleteTag(db, ownerOf(principal), params.tag_id))) throw errors.tagNotFound(params.tag_id);
  });
}

function addTagValues(api: Api): void {
  const { db } = api.deps;

  route(api, operations.createTagValue, async ({ principal, params, body }) =>
    tagValueOf(known(await createTagValue(db, ownerOf(principal), params.tag_id, body.name), params.tag_id)),
  );

  route(api, operations.patchTagValue, async ({ principal, params, body }) => {
    const at = { tagId: params.tag_id, valueId: params.tag_value_id };
    return tagValueOf(await changeTagValue(db, ownerOf(principal), at, body.name));
  });

  route(api, operations.deleteTagValue, async ({ principal, params }) => {
    await deleteTagValue(db, ownerOf(principal), { tagId: params.tag_id, valueId: params.tag_value_id });
  });
}

function addDeploymentTags(api: Api): void {
  const { db } = api.deps;

  route(api, operations.getDeploymentTags, async ({ principal, params }) => {
    const { id } = await readDeployment(db, principal, params.deployment_id);
    return { tags: await listTagsOf(db, id) };
  });

  route(api, operations.putDeploymentTags, async ({ principal, params, body }) => ({
    tags: await putTagsOf(db, ownerOf(principal), params.deployment_id, body.tag_value_ids),
  }));
}

const ownerOf = ({ organizationId, tenantId, actor }: Principal) => ({ organizationId, tenantId, actor });

function known<T>(found: T | undefined, tagId: string): T {
  if (found === undefined) throw errors.tagNotFound(tagId);
  return found;
}

const tagOf = ({ created_at, values, ...row }: TagRow): Tag => ({
  ...row,
  created_at: created_at.toISOString(),
  values: values.map(tagValueOf),
});

const tagValueOf = ({ created_at, ...row }: TagValueRow): TagValue => ({
  ...row,
  created_at: created_at.toISOString(),
});
