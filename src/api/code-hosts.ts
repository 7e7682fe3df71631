import { ApiError, errors } from "../contract/error.ts";
import { GitFailure } from "../integrations/git-failure.ts";
import type { GithubApp, GithubApps } from "../integrations/github-app.ts";
import { HostFailure } from "../integrations/host-failure.ts";

/** @throws ApiError 400 when this server has none. */
export async function neededApp(apps: GithubApps): Promise<GithubApp> {
  const app = await apps.current();
  if (app === null) throw errors.githubAppMissing();
  return app;
}

/**
 * What a code host says to us, in our words.
 * @throws ApiError 502 `codeHostFailed` where it did not answer, or refused.
 */
export async function askHost<T>(act: () => Promise<T>): Promise<T> {
  try {
    return await act();
  } catch (error) {
    if (error instanceof ApiError) throw error;
    if (error instanceof HostFailure || error instanceof GitFailure) throw errors.codeHostFailed(error.message);
    if (error instanceof DOMException) throw errors.codeHostFailed("It took too long.");
    throw error;
  }
}
