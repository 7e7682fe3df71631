import { listQuery } from "./deployment-list.ts";
import { basePath, clientOf, queries } from "./server.ts";
import { chosenWorkspace, workspaceOf } from "./workspace.ts";

// Requests the data of the first view while the browser still loads the scripts of the pages.

/** The request for the session, which is sent once. null: its answer was taken. */
let session: ReturnType<typeof askSession> | null = askSession();

/** Returns the session that was requested at the start. undefined: it was taken before. */
export function takeFirstSession(): ReturnType<typeof askSession> | undefined {
  const taken = session ?? undefined;
  session = null;
  return taken;
}

function askSession() {
  const asked = clientOf(null).getSession();
  asked.then((found) => askList(workspaceOf(found, chosenWorkspace()))).catch(() => {});
  return asked;
}

/** Reads the first page of the list, unless the address leads elsewhere. */
async function askList(workspaceId: string): Promise<void> {
  const isList = [basePath, `${basePath}host/deployments`].includes(location.pathname) && location.search === "";
  if (isList && workspaceId !== "") await queries.prefetchQuery(listQuery(clientOf(workspaceId), workspaceId, {}));
}
