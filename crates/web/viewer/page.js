// Shows the description that the page names. It is the whole of what we add to Swagger UI's behaviour.
const place = document.getElementById('viewer')

// Swagger UI is dark where the root has this class.
const dark = matchMedia('(prefers-color-scheme: dark)')
const followColorScheme = () => document.documentElement.classList.toggle('dark-mode', dark.matches)
dark.addEventListener('change', followColorScheme)
followColorScheme()

// The search field of Swagger UI looks at tags and paths; ours also at the rest of what tells an operation from others.
const search = (taggedOperations, phrase) => {
  const words = phrase.toLowerCase().split(/\s+/)
  const matches = (tag, operation) => {
    const told = ['summary', 'operationId', 'description'].map((name) => operation.getIn(['operation', name]))
    const text = [tag, operation.get('method'), operation.get('path'), ...told].join(' ').toLowerCase()
    return words.every((word) => text.includes(word))
  }
  return taggedOperations
    .map((group, tag) => group.update('operations', (all) => all.filter((operation) => matches(tag, operation))))
    .filter((group) => group.get('operations').size > 0)
}

// What Swagger UI's markup lacks for screen readers and keyboards: landmarks, headings without gaps, names of buttons, code
// that can be scrolled by keys, and buttons without links in them.
const accessible = ({ React: { createContext, createElement: h, Fragment } }) => {
  const parameter = createContext('Value')
  const hidden = (name, text) => h(name, { className: 'visually-hidden' }, text)
  const inside = (name, attributes, ...first) => (Original) => (props) => h(name, attributes, ...first, h(Original, props))
  const dialog = { role: 'dialog', 'aria-modal': true, 'aria-label': 'Sign-in' }
  return {
    // Swagger UI asks for this one without having it, and says so in the console.
    components: { 'JsonSchema_string_date-time': (props) => h(props.getComponent('JsonSchema_string'), props) },
    wrapComponents: {
      InfoContainer: inside('header', { role: 'banner' }),
      SchemesContainer: inside('section', { 'aria-label': 'Sign-in' }),
      // A service is the only server of its page.
      ServersContainer: () => () => null,
      FilterContainer: inside('div', { role: 'search' }),
      operations: inside(Fragment, null, hidden('h2', 'Operations')),
      authorizationPopup: inside('div', dialog, hidden('h2', 'Sign-in')),
      CloseIcon: inside(Fragment, null, hidden('span', 'Close')),
      HighlightCode: inside('div', { className: 'viewer-code', tabIndex: 0, role: 'group', 'aria-label': 'Code' }),
      parameterRow: (Original) => (props) => {
        return h(parameter.Provider, { value: props.rawParam.get('name') }, h(Original, props))
      },
      Select: (Original) => (props) => {
        return h('label', null, hidden('span', h(parameter.Consumer, null, (name) => name)), h(Original, props))
      },
      DeepLink: () => ({ text }) => h('span', null, text),
      Button: (Original) => (props) => {
        const isText = typeof props.children === 'string'
        return h(Original, isText ? { ...props, 'aria-label': undefined } : props)
      },
    },
  }
}

SwaggerUIBundle({
  domNode: place,
  url: place.dataset.document,
  filter: true,
  plugins: [accessible, { fn: { opsFilter: search } }],
  deepLinking: true,
  docExpansion: 'none',
  defaultModelsExpandDepth: 0,
  displayRequestDuration: true,
  syntaxHighlight: false,
  // Nothing is sent to a validator, and what a person types to sign in is gone with the page.
  validatorUrl: null,
  persistAuthorization: false,
})
