// What waits for whoever signs in, and where to begin.

import { useQuery } from '@tanstack/react-query'
import { anything, page } from '../api/query.ts'
import { session } from '../api/session.ts'
import type { Fields } from '../api/shapes.ts'
import look from '../generic/generic.module.css'
import { Link } from '../generic/go.tsx'
import { Icon } from '../kit/icons.tsx'
import { Moment } from '../kit/values.tsx'
import { type Key, t } from '../texts.ts'
import own from './home.module.css'

export function Home() {
  const user = session()?.user
  const tasks = useQuery(page('/api/tasks/', `assignees=me&status=open&ordering=due_at&limit=10`))
  return (
    <>
      <header className={look.head}>
        <h1 tabIndex={-1}>{t('welcome', { name: user?.first_name ?? '' })}</h1>
      </header>
      <div className={look.main}>
        <section className={look.section}>
          <h2>{t('home.tasks')}</h2>
          {tasks.data?.results.length === 0 && <p className={look.none}>{t('home.no-tasks')}</p>}
          <ul className={look.plain}>
            {tasks.data?.results.map((task) => (
              <li key={`${task.id}`} className={look.member}>
                <Link to={`/tasks/${task.id}`}>{`${task.name}`}</Link>
                {typeof task.due_at === 'string' && <Moment value={task.due_at} />}
              </li>
            ))}
          </ul>
          {tasks.data?.next && (
            <Link to="/tasks?status=open&ordering=due_at">
              {t('show-all', { count: tasks.data.filtered_count ?? 0 })}
            </Link>
          )}
        </section>
        {session()?.permissions?.company_details?.edit && <Guide />}
      </div>
    </>
  )
}

/** The first run: each step is ticked by what the API answers. */
function Guide() {
  const company = useQuery(anything<Fields>('/api/administration/company-details/'))
  const mail = useQuery(anything<Fields>('/api/administration/smtp-settings/'))
  const admins = useQuery(page('/api/users/', 'account_type=super_admin&limit=25'))
  const classes = useQuery(page('/api/object-classes/', 'limit=25'))
  const connectors = useQuery(page('/api/mcp/connectors/', 'limit=25'))
  const count = (list: typeof admins) => list.data?.total_count ?? list.data?.results.length ?? 0
  const steps: { text: Key; to: string; isDone: boolean }[] = [
    { text: 'guide.company', to: '/admin/company', isDone: Boolean(company.data?.admin_email_address) },
    { text: 'guide.mail', to: '/admin/mail', isDone: Boolean(mail.data?.host) },
    { text: 'guide.sign-in', to: '/admin/sign-in', isDone: false },
    { text: 'guide.second', to: '/admin/users/new', isDone: (admins.data?.filtered_count ?? 0) > 1 },
    { text: 'guide.class', to: '/admin/classes/new', isDone: count(classes) > 0 },
    {
      text: 'guide.record',
      to: '/admin/classes',
      isDone: classes.data?.results.some(({ num_of_records }) => Number(num_of_records) > 0) ?? false,
    },
    { text: 'guide.connector', to: '/admin/connectors/new', isDone: count(connectors) > 0 },
  ]
  return (
    <section className={look.section}>
      <h2>{t('guide')}</h2>
      <ol className={own.guide}>
        {steps.map(({ text, to, isDone }) => (
          <li key={text} data-done={isDone}>
            <span className={own.tick}>{isDone ? <Icon name="check" /> : null}</span>
            <Link to={to}>{t(text)}</Link>
            {isDone && <span className="hidden">{t('done')}</span>}
          </li>
        ))}
      </ol>
    </section>
  )
}
