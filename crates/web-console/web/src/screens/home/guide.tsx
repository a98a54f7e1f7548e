// The first steps of an administrator who sets up a build. The API's answers tick them. The guide disappears when all
// are ticked.

import { useQuery } from '@tanstack/react-query'
import { get } from '../../api/request.ts'
import { session } from '../../api/session.ts'
import type { Company, MailSettings, Page } from '../../api/shapes.ts'
import look from '../../generic/generic.module.css'
import { Link } from '../../generic/go.tsx'
import { serverOf, useSettings } from '../../generic/settings.ts'
import { Button } from '../../kit/buttons.tsx'
import css from '../../kit/controls.module.css'
import { Icon } from '../../kit/icons.tsx'
import { say } from '../../kit/toasts.tsx'
import { type Key, t } from '../../texts.ts'
import own from './home.module.css'

const may = (resource: string, action: string) => session()?.permissions?.[resource]?.[action] === true

/** True if a list has at least this number of entries. */
async function checkCount(path: string, parameters: string, least = 1): Promise<boolean> {
  const { filtered_count, results } = await get<Page>(`${path}?${parameters}limit=${least}`)
  return (filtered_count ?? results.length) >= least
}

/** True if a class has a record. Usually one of the first has. */
async function checkAnyRecord(): Promise<boolean> {
  for (const limit of [25, 1000]) {
    const { results, next } = await get<Page>(`/api/object-classes/?ordering=created_at&limit=${limit}`)
    if (results.some(({ num_of_records }) => Number(num_of_records) > 0)) return true
    if (!next) break
  }
  return false
}

/** The sign-in rules were changed, or there is another way to sign in. */
const decidedOnSignIn = async () =>
  (may('administration_log', 'list') &&
    (await checkCount('/api/administration/log/', 'resource=standard_authentication&'))) ||
  (may('single_sign_on', 'list') && (await checkCount('/api/single-sign-on/', 'is_enabled=true&')))

interface Step {
  text: Key
  to: string
  mayTake: boolean
  /** The state of a step from the API: true if it is done. For mail, the server. */
  ask: () => Promise<boolean | string>
}

const STEPS = (): Step[] => [
  {
    text: 'guide.company',
    to: '/admin/company',
    mayTake: may('company_details', 'edit'),
    ask: async () => Boolean((await get<Company>('/api/administration/company-details/')).admin_email_address),
  },
  {
    text: 'guide.mail',
    to: '/admin/mail',
    mayTake: may('outbound_mail_setup', 'edit'),
    ask: async () => serverOf(await get<MailSettings>('/api/administration/smtp-settings/')),
  },
  {
    text: 'guide.sign-in',
    to: '/admin/sign-in',
    mayTake: may('standard_authentication', 'edit'),
    ask: decidedOnSignIn,
  },
  {
    text: 'guide.second',
    to: '/admin/users/new',
    mayTake: session()?.user?.account_type === 'super_admin',
    ask: () => checkCount('/api/users/', 'account_type=super_admin&', 2),
  },
  {
    text: 'guide.class',
    to: '/admin/classes/new',
    mayTake: may('object_classes', 'create'),
    ask: () => checkCount('/api/object-classes/', ''),
  },
  { text: 'guide.record', to: '/records', mayTake: may('object_classes', 'create'), ask: checkAnyRecord },
  {
    text: 'guide.connector',
    to: '/admin/connectors/new',
    mayTake: may('mcp_connectors', 'create'),
    ask: () => checkCount('/api/mcp/connectors/', ''),
  },
]

export function Guide() {
  const [{ guide }, change] = useSettings()
  const note = (noted: Partial<typeof guide>) => change((now) => ({ guide: { ...now.guide, ...noted } }))
  const { data } = useQuery({
    queryKey: ['guide'],
    queryFn: async () => {
      const steps = STEPS().filter(({ mayTake }) => mayTake)
      return Promise.all(steps.map(async (step) => ({ ...step, said: await step.ask().catch(() => false) })))
    },
    enabled: !guide.isDismissed,
    staleTime: 0,
  })
  const steps = (data ?? []).map(({ text, to, said }) => {
    const isTested = said !== '' && said === guide.tested
    const isDone = text === 'guide.mail' ? isTested : said === true || (text === 'guide.sign-in' && guide.isSignInRight)
    return { text, to, isDone, isUntested: text === 'guide.mail' && said !== '' && !isTested }
  })
  if (guide.isDismissed || steps.every(({ isDone }) => isDone)) return null
  const dismiss = () => {
    note({ isDismissed: true })
    say(t('guide.dismissed'), { undo: () => note({ isDismissed: false }) })
  }
  return (
    <section className={look.section}>
      <h2>{t('guide')}</h2>
      <ol className={own.guide}>
        {steps.map(({ text, to, isDone, isUntested }) => (
          <li key={text} data-done={isDone}>
            <span className={own.tick}>{isDone ? <Icon name="check" /> : null}</span>
            <Link to={to}>{t(text)}</Link>
            {isDone && <span className="hidden">{t('done')}</span>}
            {isUntested && <span className={css.hint}>{t('guide.mail.not-tested')}</span>}
            {text === 'guide.sign-in' && !isDone && (
              <Button onPress={() => note({ isSignInRight: true })}>{t('guide.sign-in.right')}</Button>
            )}
          </li>
        ))}
      </ol>
      <div>
        <Button onPress={dismiss}>{t('guide.dismiss')}</Button>
      </div>
    </section>
  )
}
