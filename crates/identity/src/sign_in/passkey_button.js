{
  const form = document.currentScript.closest("form");
  const button = form.querySelector("[data-failed]");
  const fail = (text) => {
    form.querySelector("[role=alert]")?.remove();
    const alert = document.createElement("p");
    alert.setAttribute("role", "alert");
    alert.textContent = text;
    form.prepend(alert);
  };
  if (window.PublicKeyCredential?.parseRequestOptionsFromJSON) {
    button.parentElement.hidden = false;
    button.onclick = async () => {
      try {
        const answer = await fetch("/api/auth/passkey/", { method: "POST" });
        const begun = await answer.json();
        if (!answer.ok) return fail(begun.detail ?? button.dataset.failed);
        const publicKey = PublicKeyCredential.parseRequestOptionsFromJSON(begun.options);
        const credential = await navigator.credentials.get({ publicKey });
        form.elements.challenge.value = begun.challenge;
        form.elements.credential.value = JSON.stringify(credential.toJSON());
      } catch {
        return fail(button.dataset.failed);
      }
      form.elements.password.value = "";
      form.action = "/sign-in/passkey/";
      form.submit();
    };
  }
}
