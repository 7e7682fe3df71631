import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { isRefusal } from "../../../src/client/client.ts";
import { Dialog } from "../parts/dialog.tsx";
import { Failure, Loading } from "../parts/notices.tsx";
import { ActionButton } from "../parts/resource-page.tsx";
import { useSession } from "../session.tsx";

const here = "/host/integrations";

/** Connects GitHub accounts. An operator creates the server's App, and workspace admins install it. */
export function GithubApp() {
  const { client, scope } = useSession();
  const app = useQuery({
    queryKey: ["github-app"],
    queryFn: ({ signal }) =>
      client.getGithubApp({}, { signal }).catch((error: unknown) => {
        if (isRefusal(error, "githubAppMissing")) return null;
        throw error;
      }),
    // Other roles cannot read which App the server uses.
    enabled: scope === "installation",
  });
  if (app.data === null) return <CreateApp />;
  return (
    <>
      <InstallApp />
      <ChooseInstallation />
    </>
  );
}

/** Leads to the server's page that creates the App at GitHub. */
function CreateApp() {
  const { client } = useSession();
  return (
    <ActionButton
      text="Create the GitHub App"
      act={() => client.createGithubAppLink()}
      onDone={(answer) => location.assign((answer as { create_url: string }).create_url)}
    />
  );
}

/** Leads to GitHub and back. Without an App on the server, the call fails and the user sees the error. */
function InstallApp() {
  const { client } = useSession();
  const [link, setLink] = useState<{ install_url: string; oauth_reuse_url: string } | null>(null);
  return (
    <>
      <ActionButton
        text="Install the GitHub App"
        act={() => client.createInstallationLink({ body: { return_to: here } })}
        onDone={(answer) => {
          const { install_url, oauth_reuse_url } = answer as { install_url: string; oauth_reuse_url: string | null };
          if (oauth_reuse_url === null) location.assign(install_url);
          else setLink({ install_url, oauth_reuse_url });
        }}
      />
      {link !== null && (
        <Dialog title="Accounts at GitHub" onClose={() => setLink(null)}>
          <p>Has this account already installed the GitHub App?</p>
          <div className="row end">
            <button type="button" onClick={() => location.assign(link.oauth_reuse_url)}>
              Yes, let me choose
            </button>
            <button type="button" onClick={() => location.assign(link.install_url)}>
              No, install it
            </button>
          </div>
        </Dialog>
      )}
    </>
  );
}

/** The choice among the accounts that the user can use, shown on return from a sign-in at GitHub. */
function ChooseInstallation() {
  const { client, workspaceId } = useSession();
  const [id, setId] = useState(() => new URLSearchParams(location.search).get("picker_session"));
  const session = useQuery({
    queryKey: ["picker-session", workspaceId, id],
    queryFn: ({ signal }) => client.getPickerSession({ session_id: id ?? "" }, { signal }),
    enabled: id !== null,
    retry: false,
  });
  if (id === null) return null;
  const go = (answer: unknown) => location.assign((answer as { redirect_url: string }).redirect_url);
  const select = (body: { action: "ATTACH" | "INSTALL_NEW"; installation_id: number | null }) =>
    client.selectInstallation({ session_id: id, body });
  return (
    <Dialog title="Choose an account" onClose={() => setId(null)}>
      {session.isPending && <Loading what="accounts" />}
      {session.isError && <Failure error={session.error} retry={() => void session.refetch()} />}
      {session.data !== undefined && (
        <ul className="names" aria-label="Accounts">
          {session.data.installs.map(({ installation_id, account_login, already_in_org }) => (
            <li key={installation_id}>
              <ActionButton
                text={`Use ${account_login}`}
                act={() => select({ action: "ATTACH", installation_id })}
                onDone={go}
              />
              {already_in_org && <span className="soft"> already connected</span>}
            </li>
          ))}
        </ul>
      )}
      <div className="row end">
        <ActionButton
          text="Install on another account"
          act={() => select({ action: "INSTALL_NEW", installation_id: null })}
          onDone={go}
        />
      </div>
    </Dialog>
  );
}
