// Stands in for the console until its bundle is here.
const answer = await fetch('/api/auth/browser/token/', { method: 'POST' })
document.getElementById('root').textContent = answer.ok ? 'You are signed in.' : 'You are not signed in.'
