import { Copy } from "lucide-react";
import { copyText } from "./copy-as.tsx";
import { IconButton } from "./icon-button.tsx";
import { useToasts } from "./toasts.tsx";

/** The address of a deployment, with a button to copy it. */
export function Address({ url }: { url: string }) {
  const { notify, notifyError } = useToasts();
  return (
    <>
      <a href={url} className="link mono clip" rel="noreferrer">
        {url}
      </a>
      <IconButton
        name="Copy address"
        icon={<Copy size={14} />}
        onClick={() => void copyText(url).then(() => notify("Address copied."), notifyError)}
      />
    </>
  );
}
