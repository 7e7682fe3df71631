import path from "node:path";
import type { FastifyRequest } from "fastify";
import { BytePace } from "../../base/byte-pace.ts";
import type { SourceKind } from "../../contract/deployments/deployment.ts";
import { errors } from "../../contract/error.ts";
import { operations } from "../../contract/operations.ts";
import type { UploadReceipt } from "../../contract/revisions/upload.ts";
import { isBeingDeleted } from "../../domain/deployment-status.ts";
import { uploadBytesMax, uploadUrlLifeMs } from "../../domain/limits.ts";
import { ObjectStorageError } from "../../integrations/object-storage-error.ts";
import { findUpload, finishUpload, isUploadUsed, startUpload, type UploadRow } from "../../store/builds/uploads.ts";
import { describeError } from "../../telemetry/log.ts";
import { readDeployment } from "../deployments/deployment-routes.ts";
import type { ApiDeps } from "../deps.ts";
import { type Api, openRoute, route } from "../http/route.ts";
import { apiUrlOf } from "../http/urls.ts";
import { drain, type ReceivedFile, type ReceiveOptions, receiveFile, removeAbandoned } from "./receive-upload.ts";
import { isSignedUpload, signUpload } from "./upload-signature.ts";
import { UploadSpace } from "./upload-space.ts";

/**
 * Pace of the uploads of one workspace, all together. The sender waits, because its connection is not read meanwhile. Far above most
 * lines, and low enough that hashing and writing leave the event loop to others. Most projects are smaller than the burst.
 */
const uploadPace = { bytesPerS: 16 * 1024 * 1024, burstBytes: 16 * 1024 * 1024 };

/** Adds the routes for source archives: D11, and the PUT to the URL that it returns (contract 3.2). */
export function addUploadRoutes(api: Api): void {
  const { db, sealer, settings } = api.deps;
  const space = new UploadSpace(api.deps);
  const pace = new BytePace(uploadPace);
  api.server.addHook("onReady", () => removeAbandoned(path.join(settings.dataDir, "uploads")));

  route(api, operations.createUploadUrl, async ({ principal, params, request }) => {
    const deployment = await readDeployment(db, principal, params.deployment_id);
    if (!takesUploads.has(deployment.source)) throw errors.uploadNotApplicable(deployment.source);
    if (isBeingDeleted(deployment.status)) throw errors.beingDeleted(deployment.id);
    await space.check(principal.tenantId);
    const expiresAt = new Date(db.now().getTime() + uploadUrlLifeMs);
    const upload = await startUpload(db, { id: deployment.id, tenantId: principal.tenantId }, expiresAt);
    const query = new URLSearchParams({
      expires_at: expiresAt.toISOString(),
      signature: signUpload(sealer, { id: upload.id, expiresAt }),
    });
    return {
      upload_url: `${apiUrlOf(request.raw, settings)}/uploads/${upload.id}?${query}`,
      object_path: upload.object_path,
    };
  });

  // A separate scope, because this route streams its body instead of buffering it.
  api.server.register((scope, _options, done) => {
    scope.removeAllContentTypeParsers();
    scope.addContentTypeParser("*", (_request, body, done) => done(null, body));
    scope.addHook("onSend", async (request) => {
      if (!request.raw.readableEnded) await drain(request.raw, uploadBytesMax);
    });
    openRoute({ ...api, server: scope }, operations.putUpload, async ({ params, query, request, signal }) => {
      const signed = { id: params.upload_id, expiresAt: new Date(query.expires_at) };
      const isValid = isSignedUpload(sealer, signed, query.signature) && signed.expiresAt > db.now();
      const upload = isValid ? await findUpload(db, params.upload_id) : undefined;
      if (upload === undefined) throw errors.uploadUrlInvalid();
      const bytes = Number(request.headers["content-length"] ?? uploadBytesMax);
      if (bytes > uploadBytesMax) throw errors.uploadTooLarge(uploadBytesMax);
      const held = await space.hold(upload.tenant_id, bytes);
      try {
        const ofWorkspace = (bytes: number) => pace.wait(upload.tenant_id, bytes, signal);
        return await takeUpload(api.deps, upload, { request, signal, pace: ofWorkspace });
      } finally {
        held.release();
        pace.forgetIdle();
      }
    });
    done();
  });
}

/** Sources for which `revision_source` may be `internal_source`. */
const takesUploads: ReadonlySet<SourceKind> = new Set(["internal_source", "internal_docker", "github"]);

async function takeUpload(
  deps: ApiDeps,
  upload: UploadRow,
  { request, signal, pace }: { request: FastifyRequest; signal: AbortSignal; pace: ReceiveOptions["pace"] },
): Promise<UploadReceipt> {
  const target = path.join(deps.settings.dataDir, upload.object_path);
  const file = await receiveFile(request.raw, target, { bytesMax: uploadBytesMax, signal, ...(pace && { pace }) });
  try {
    await finish(deps, upload, file, signal);
  } finally {
    await file.discard();
  }
  return { object_path: upload.object_path, size_bytes: file.sizeBytes, sha256: file.sha256 };
}

/**
 * Keeps an upload. A second upload to one URL replaces the first until a revision uses it, because revisions are
 * immutable. The same archive is always accepted again, because clients retry an upload whose response they missed.
 * @throws ApiError 403 when a revision uses a different archive, or the deployment is being deleted.
 */
async function finish(
  { db, uploads, logger }: ApiDeps,
  upload: UploadRow,
  file: ReceivedFile,
  signal: AbortSignal,
): Promise<void> {
  // Another request to the URL may have ended while this one was received.
  const now = await findUpload(db, upload.id);
  if (now?.finished_at != null) {
    if (now.sha256 === file.sha256) return;
    if (await isUploadUsed(db, upload)) throw errors.uploadUrlInvalid();
  }
  const isKept = await uploads.keep(file, upload.object_path, signal).catch((error: unknown) => {
    if (!(error instanceof ObjectStorageError)) throw error;
    logger.error({ error: describeError(error) }, "object storage refused an upload");
    throw errors.uploadNotStored();
  });
  if (isKept && (await finishUpload(db, upload.id, { sha256: file.sha256, sizeBytes: file.sizeBytes }))) return;
  await uploads.remove(upload.object_path);
  throw errors.uploadUrlInvalid();
}
