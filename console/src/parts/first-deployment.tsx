import { Link } from "@tanstack/react-router";
import { baseUrl } from "../server.ts";
import { CommandLine } from "./command-line.tsx";
import { Empty } from "./notes.tsx";

/** Three ways to the first deployment, each of which works as it stands. */
export function FirstDeployment() {
  return (
    <Empty title="Nothing runs here yet">
      <p>
        A deployment is the source of an agent server, built, run and kept answering at one address. Three ways to the
        first:
      </p>
      <h3>From here</h3>
      <p>
        Take a template, a git repository, an image, or drop a folder:{" "}
        <Link to="/host/new" className="button primary">
          New deployment
        </Link>
      </p>
      <h3>On the command line</h3>
      <CommandLine text="npx pierhead deploy --template node-server" />
      <h3>By the API</h3>
      <CommandLine
        text={`curl -X POST '${baseUrl}/v2/deployments' -H "X-Api-Key: $PIERHEAD_API_KEY" -H 'Content-Type: application/json' -d '{"name":"hello","source":"internal_template","source_config":{"template_id":"node-server"},"source_revision_config":{}}'`}
      />
    </Empty>
  );
}
