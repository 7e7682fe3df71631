import type { Client } from "../../src/client/client.ts";
import { archiveOf, type SourceFile } from "./archive.ts";
import { baseUrl } from "./server.ts";

/** Uploads a folder and creates a revision from it. */
export async function uploadSource(
  client: Client,
  deploymentId: string,
  files: readonly SourceFile[],
  configPath: string | null,
): Promise<void> {
  const ids = { deployment_id: deploymentId };
  const archive = await archiveOf(files);
  const { upload_url, object_path } = await client.createUploadUrl(ids);
  // The upload URL can name the server by another host, but this page may call only its own origin.
  const { pathname, search } = new URL(upload_url);
  const mount = new URL(baseUrl).pathname.replace(/\/$/, "");
  const path = pathname.startsWith(`${mount}/`) ? pathname : mount + pathname;
  await client.uploadArchive(location.origin + path + search, archive);
  const config = { source_tarball_path: object_path, langgraph_config_path: configPath };
  await client.createRevision({ ...ids, body: { source_revision_config: config } });
}
