import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { isRefusal } from "../../../src/client/client.ts";
import { Dialog } from "../parts/dialog.tsx";
import { Failure, Loading } from "../parts/notes.tsx";
import { ActionButton } from "../parts/resource-page.tsx";
import { useSession } from "../session.tsx";

const here = "/host/integrations";

/** How accounts of GitHub get here: the server's App is made by who administers it, and installed by admins. */
export function GithubApp() {
  const { client, scope } = useSession();
  const app = useQuery({
    queryKey: ["github-app"],
    queryFn: ({ signal }) =>
      client.getGithubApp({}, { signal }).catch((error: unknown) => {
        if (isRefusal(error, "githubAppMissing")) return null;
        throw error;
      }),
    // Nobody else is told which App it is.
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

/** Leads to the server's page about it, and from there to GitHub. */
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

/** The page goes to the host and comes back; where the operator has no App, the server says so. */
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
          <p>Has the account that is to be deployed from installed the App already?</p>
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

/** Whoever comes back from a sign-in at GitHub chooses among the accounts that he can use. */
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
              {already_in_org && <span className="soft"> in use here</span>}
            </li>
          ))}
        </ul>
      )}
      <div className="row end">
        <ActionButton
          text="Install it elsewhere"
          act={() => select({ action: "INSTALL_NEW", installation_id: null })}
          onDone={go}
        />
      </div>
    </Dialog>
  );
}
