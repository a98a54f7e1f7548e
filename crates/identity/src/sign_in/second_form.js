{
  const form = document.currentScript.closest("form");
  const button = form.querySelector("[data-options]");
  if (window.PublicKeyCredential?.parseRequestOptionsFromJSON) {
    button.parentElement.hidden = false;
    if (!form.querySelector("[autofocus]")) button.focus();
    button.onclick = async () => {
      form.querySelector("[role=alert]")?.remove();
      try {
        const publicKey = PublicKeyCredential.parseRequestOptionsFromJSON(JSON.parse(button.dataset.options));
        const credential = await navigator.credentials.get({ publicKey });
        form.elements.credential.value = JSON.stringify(credential.toJSON());
      } catch {
        const alert = document.createElement("p");
        alert.setAttribute("role", "alert");
        alert.textContent = button.dataset.failed;
        form.prepend(alert);
        return;
      }
      form.submit();
    };
  }
}
