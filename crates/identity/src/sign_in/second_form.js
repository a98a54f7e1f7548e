{
  const form = document.currentScript.closest("form");
  const button = form.querySelector("[data-options]");
  if (window.PublicKeyCredential?.parseRequestOptionsFromJSON) {
    button.hidden = false;
    button.onclick = async () => {
      const publicKey = PublicKeyCredential.parseRequestOptionsFromJSON(JSON.parse(button.dataset.options));
      try {
        const credential = await navigator.credentials.get({ publicKey });
        form.elements.credential.value = JSON.stringify(credential.toJSON());
      } catch {
        return;
      }
      form.submit();
    };
  }
}
