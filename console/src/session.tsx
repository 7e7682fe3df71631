import { useQuery } from "@tanstack/react-query";
import { createContext, type ReactNode, useContext, useEffect, useMemo, useState } from "react";
import { type Client, isRefusal } from "../../src/client/client.ts";
import type { Session } from "../../src/contract/administration/session.ts";
import { forgetForeign } from "./agent/foreign-servers.ts";
import { forgetHeaders } from "./agent/own-headers.ts";
import { takeFirstSession } from "./first-view.ts";
import { forgetDrafts } from "./kept-draft.ts";
import { SignInPage } from "./pages/sign-in.tsx";
import { Failure, Loading } from "./parts/notices.tsx";
import { clientOf, queries, whenSignedOut } from "./server.ts";
import { forgetStagedChanges } from "./staged-changes.ts";
import { chosenWorkspace, keepWorkspace, workspaceOf } from "./workspace.ts";

/** The signed-in user, their workspace, and the client that acts for them. */
export interface SignedIn {
  session: Session;
  workspaceId: string;
  /** The user's role in that workspace and its scope. */
  role: Session["role"];
  scope: Session["scope"];
  client: Client;
  /** What the role allows, to hide buttons. The server checks every call itself. */
  mayChange: boolean;
  mayAdminister: boolean;
  chooseWorkspace(id: string): void;
  signOut(): Promise<void>;
}

const Context = createContext<SignedIn | null>(null);

export function useSession(): SignedIn {
  const found = useContext(Context);
  if (found === null) throw new Error("useSession needs a SessionGate above it");
  return found;
}

/** Shows its children to signed-in users and the sign-in page to others. */
export function SessionGate({ children }: { children: ReactNode }) {
  const open = useMemo(() => clientOf(null), []);
  const session = useQuery({
    queryKey: ["session"],
    queryFn: () => readSession(open),
    staleTime: Number.POSITIVE_INFINITY,
    // All tabs share one cookie: the user of another tab may have signed out and another user signed in.
    refetchOnWindowFocus: "always",
  });
  useEffect(() => whenSignedOut(endSession), []);
  if (session.isPending) return <Loading what="the console" />;
  if (session.data === undefined) return <Failure error={session.error} retry={() => void session.refetch()} />;
  if (session.data === null) return <SignInPage onSignedIn={beginSession} />;
  return (
    <Signed key={idOf(session.data)} session={session.data}>
      {children}
    </Signed>
  );
}

/** Returns a name for what this browser keeps for a user in a workspace. */
export const ownerOf = (session: Session, workspaceId: string) => `${workspaceId}:${idOf(session)}`;

const idOf = ({ api_key_id, member_id }: Session) => api_key_id ?? member_id ?? "";

async function readSession(open: Client): Promise<Session | null> {
  const found = await (takeFirstSession() ?? open.getSession()).catch((error: unknown) =>
    isRefusal(error, "invalidToken") ? null : fail(error),
  );
  const before = queries.getQueryData<Session | null>(["session"]) ?? null;
  if (before !== null && (found === null || idOf(found) !== idOf(before))) forgetAll();
  return found;
}

/** Forgets the data of the previous user. */
function forgetAll(): void {
  forgetAnswers();
  forgetStagedChanges();
  forgetDrafts();
  forgetForeign();
  forgetHeaders();
}

/** Forgets what the server answered for another workspace. What the user typed there stays for their return. */
function forgetAnswers(): void {
  queries.removeQueries({ predicate: ({ queryKey }) => queryKey[0] !== "session" });
}

/** Stores the new session. A session request that was sent before the sign-in would overwrite it, so it is cancelled. */
async function beginSession(made: Session): Promise<void> {
  await queries.cancelQueries({ queryKey: ["session"] });
  queries.setQueryData(["session"], made);
}

/** Ends the session after a sign-out or when the server rejects it. The next user must not see its data. */
function endSession(): void {
  queries.setQueryData(["session"], null);
  forgetAll();
}

function fail(error: unknown): never {
  throw error;
}

function Signed({ session, children }: { session: Session; children: ReactNode }) {
  const [chosen, setChosen] = useState(chosenWorkspace);
  const workspaceId = workspaceOf(session, chosen);
  // Stores a workspace from a link too, so that a reload stays in it.
  useEffect(() => keepWorkspace(workspaceId), [workspaceId]);
  // A member can have different roles in different workspaces.
  const { role, scope } = session.workspaces.find(({ id }) => id === workspaceId) ?? session;
  const client = useMemo(() => clientOf(workspaceId), [workspaceId]);
  const value = useMemo<SignedIn>(
    () => ({
      session,
      workspaceId,
      role,
      scope,
      client,
      mayChange: role === "deployer" || role === "admin",
      mayAdminister: role === "admin",
      chooseWorkspace: (id) => {
        forgetAnswers();
        setChosen(id);
      },
      signOut: async () => {
        await clientOf(null).deleteSession();
        endSession();
      },
    }),
    [session, workspaceId, role, scope, client],
  );
  return <Context.Provider value={value}>{children}</Context.Provider>;
}
