import { getRouteApi, useNavigate } from "@tanstack/react-router";
import { LogExplorer } from "../logs/log-explorer.tsx";
import { usePageTitle } from "../parts/page-title.ts";

const route = getRouteApi("/host/logs");

/** The logs of all deployments of the workspace. */
export function LogSearchPage() {
  usePageTitle("Logs");
  const navigate = useNavigate({ from: "/host/logs" });
  return (
    <LogExplorer
      title={<h1>Logs</h1>}
      search={route.useSearch()}
      onSearch={(search, replace = false) => void navigate({ search, replace })}
    />
  );
}
