import { useQuery } from "@tanstack/react-query";
import { createContext, type ReactNode, useContext, useEffect, useMemo, useState } from "react";
import { type Client, isRefusal } from "../../src/client/client.ts";
import type { Session } from "../../src/contract/administration/session.ts";
import { SignInPage } from "./pages/sign-in.tsx";
import { Failure, Loading } from "./parts/notes.tsx";
import { clientOf, queries, whenSignedOut } from "./server.ts";

/** Who is signed in, where they act, and the client that acts for them. */
export interface SignedIn {
  session: Session;
  workspaceId: string;
  /** What they are in that workspace, and how far it goes. */
  role: Session["role"];
  scope: Session["scope"];
  client: Client;
  /** Roles as the server has them; it is asked all the same. */
  mayChange: boolean;
  mayAdminister: boolean;
  chooseWorkspace(id: string): void;
  signOut(): Promise<void>;
}

const Context = createContext<SignedIn | null>(null);

export function useSession(): SignedIn {
  const found = useContext(Context);
  if (found === null) throw new Error("outside of a session");
  return found;
}

const workspaceKey = "pierhead.workspace";

/** The page behind it is shown to those who are signed in; others are asked to. */
export function SessionGate({ children }: { children: ReactNode }) {
  const open = useMemo(() => clientOf(null), []);
  const session = useQuery({
    queryKey: ["session"],
    queryFn: () => readSession(open),
    staleTime: Number.POSITIVE_INFINITY,
    // All tabs have one cookie: in another one somebody may have signed out, and in as somebody else.
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

const idOf = ({ api_key_id, member_id }: Session) => api_key_id ?? member_id ?? "";

async function readSession(open: Client): Promise<Session | null> {
  const found = await open
    .getSession()
    .catch((error: unknown) => (isRefusal(error, "invalidToken") ? null : fail(error)));
  const before = queries.getQueryData<Session | null>(["session"]) ?? null;
  if (before !== null && (found === null || idOf(found) !== idOf(before))) forgetAll();
  return found;
}

/** What was read stays with whom, and where, it was read. */
const forgetAll = () => queries.removeQueries({ predicate: ({ queryKey }) => queryKey[0] !== "session" });

/** A question that was sent before the answer to the sign-in does not know of it. */
async function beginSession(made: Session): Promise<void> {
  await queries.cancelQueries({ queryKey: ["session"] });
  queries.setQueryData(["session"], made);
}

/** By oneself, or because the server knows no longer who is asking: the next one may be somebody else. */
function endSession(): void {
  queries.setQueryData(["session"], null);
  forgetAll();
}

function fail(error: unknown): never {
  throw error;
}

function Signed({ session, children }: { session: Session; children: ReactNode }) {
  const linked = /\/o\/([0-9a-f-]{36})\/host\//i.exec(location.pathname)?.[1];
  const [chosen, setChosen] = useState(linked ?? sessionStorage.getItem(workspaceKey));
  const isKnown = session.workspaces.some(({ id }) => id === chosen);
  const workspaceId = (isKnown ? chosen : (session.workspace_id ?? session.workspaces[0]?.id)) ?? "";
  // One that a link named, too: a reload stays in it.
  useEffect(() => sessionStorage.setItem(workspaceKey, workspaceId), [workspaceId]);
  // A person may be more in one workspace than in another.
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
        forgetAll();
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
