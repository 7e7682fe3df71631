import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { ApiError, errorHeader, errors } from "../../contract/error.ts";
import { describeError, type Logger } from "../../telemetry/log.ts";
import { traceFields } from "../../telemetry/traces.ts";
import { spanOf } from "./request-span.ts";

/**
 * Turns every thrown error into an HTTP response; handlers only throw. An error that is not in the catalog is a bug of
 * ours: it answers 500 without details, and the log has the chain of causes.
 */
export function answerErrors(app: FastifyInstance, logger: Logger): void {
  app.setErrorHandler((error, request, reply) => {
    const refusal = refusalOf(error);
    if (refusal !== undefined) return answer(reply, refusal);
    // The client disconnected while it was sending: it cannot read this response, and nothing on our side failed.
    if (request.raw.errored !== null) return reply.code(400).send({ detail: "The request ended early." });
    const { operation } = request.routeOptions.config;
    const fields = { request_id: request.id, operation, ...traceFields(spanOf(request)), error: describeError(error) };
    if (isDiskFull(error)) {
      logger.error(fields, "disk full");
      return answer(reply, errors.diskFull());
    }
    if (isDatabaseAway(error)) {
      logger.warn(fields, "database unreachable");
      return answer(reply, errors.unavailable("The database cannot be reached. Try again in a moment.", 2));
    }
    logger.error(fields, "request failed");
    return reply.code(500).send({ detail: "Internal Server Error" });
  });
}

/** Answers errors that fastify raises before a request has a route. */
export function answerRefused(error: FastifyError, request: FastifyRequest, reply: FastifyReply): void {
  reply.header("x-request-id", request.id);
  answer(reply, refusalOf(error) ?? errors.routeNotFound());
}

function answer(reply: FastifyReply, refusal: ApiError) {
  // The rest of a late body may never come, so nothing can follow it on this connection.
  if (refusal.status === 408) reply.header("connection", "close");
  return reply
    .code(refusal.status)
    .headers({ [errorHeader]: refusal.code, ...refusal.headers })
    .send(refusal.body());
}

function refusalOf(error: unknown): ApiError | undefined {
  if (error instanceof ApiError) return error;
  if (!(error instanceof Error)) return undefined;
  const { code, statusCode } = error as Partial<FastifyError>;
  if (code === "FST_ERR_BAD_URL" || code === "FST_ERR_MAX_PARAM_LENGTH") return errors.routeNotFound();
  if ("isRetryable" in error && error.isRetryable === true) {
    return errors.unavailable("The database is restarting. Try again in a moment.", 1);
  }
  // Transport errors, such as a body shorter than its Content-Length.
  if (code?.startsWith("FST_ERR_CTP_") && statusCode !== undefined && statusCode < 500) {
    return new ApiError("transport", statusCode, error.message);
  }
  return undefined;
}

/**
 * Returns whether the disk of the data directory or of the database is full. PostgreSQL does not always use disk_full.
 */
function isDiskFull(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const { code, cause } = error as Error & { code?: string };
  return fullCodes.has(code ?? "") || error.message.includes("No space left on device") || isDiskFull(cause);
}

const fullCodes: ReadonlySet<string> = new Set(["53100", "ENOSPC", "EDQUOT"]);

/**
 * Returns whether the database is temporarily unreachable: a lost or refused connection, a server that starts or stops,
 * or no free connection. These codes can only come from the database, because errors of our other outgoing connections
 * never reach this handler.
 */
function isDatabaseAway(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const { code, cause } = error as Error & { code?: string };
  return awayCodes.has(code ?? "") || awayTexts.test(error.message) || isDatabaseAway(cause);
}

const awayCodes: ReadonlySet<string> = new Set([
  ...["ECONNREFUSED", "ECONNRESET", "EPIPE", "ETIMEDOUT", "EHOSTUNREACH", "ENETUNREACH", "ENOTFOUND", "EAI_AGAIN"],
  // Also statement timeouts, and a read-only server: a standby, or a primary that became one.
  ...["57P01", "57P02", "57P03", "53300", "08006", "08001", "57014", "25006"],
]);
const awayTexts = /^(timeout exceeded when trying to connect|Connection terminated|Query read timeout)/;
