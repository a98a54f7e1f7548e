// The home page: open tasks, recent records, the blocks of the interface, and the first steps.

import { useQuery } from '@tanstack/react-query'
import { page } from '../../api/query.ts'
import { session } from '../../api/session.ts'
import look from '../../generic/generic.module.css'
import { Link } from '../../generic/go.tsx'
import { NotUnderstood } from '../../generic/not-understood.tsx'
import { useSettings } from '../../generic/settings.ts'
import { useConfiguration } from '../../generic/ui-config.ts'
import { readHome, readMenu } from '../../generic/ui-contents.ts'
import { part } from '../../kit/part.tsx'
import { Moment } from '../../kit/values.tsx'
import { useRecentRecords } from '../../shared/recent-records.ts'
import { type Key, t } from '../../texts.ts'
import { Guide } from './guide.tsx'
import own from './home.module.css'

const Blocks = part(() => import('../../shared/blocks.tsx').then((module) => module.Blocks))

export function Home() {
  const user = session()?.user
  const recent = useRecentRecords()
  const [{ pinnedViews }] = useSettings()
  const { content, flaws } = useConfiguration('home', readHome)
  const menu = useConfiguration('menu', readMenu)
  return (
    <>
      <header className={look.head}>
        <h1 tabIndex={-1}>{t('welcome', { name: user?.first_name ?? '' })}</h1>
      </header>
      <div className={look.main}>
        <NotUnderstood component="menu" flaws={menu.flaws} to="/admin/interface" />
        <NotUnderstood component="home" flaws={flaws} to="/admin/interface/home" />
        <div className={own.columns}>
          <Tasks />
          <Links title="home.recent" links={recent.map(({ to, label }) => ({ to, name: label }))} />
          <Links title="home.views" links={pinnedViews} />
        </div>
        {content.blocks.length > 0 && <Blocks blocks={content.blocks} />}
        <Guide />
      </div>
    </>
  )
}

function Tasks() {
  const { data } = useQuery(page('/api/tasks/', `assignees=me&status=open&ordering=due_at&limit=10`))
  return (
    <section className={look.section}>
      <h2>{t('home.tasks')}</h2>
      {data?.results.length === 0 && <p className={look.none}>{t('home.no-tasks')}</p>}
      <ul className={look.plain}>
        {data?.results.map((task) => (
          <li key={`${task.id}`} className={look.member}>
            <Link to={`/tasks/${task.id}`}>{`${task.name}`}</Link>
            {typeof task.due_at === 'string' && <Moment value={task.due_at} />}
          </li>
        ))}
      </ul>
      {data?.next && (
        <Link to="/tasks?status=open&ordering=due_at">{t('show-all', { count: data.filtered_count ?? 0 })}</Link>
      )}
    </section>
  )
}

function Links({ title, links }: { title: Key; links: { to: string; name: string }[] }) {
  if (links.length === 0) return null
  return (
    <section className={look.section}>
      <h2>{t(title)}</h2>
      <ul className={look.plain}>
        {links.map(({ to, name }) => (
          <li key={to} className={look.member}>
            <Link to={to}>{name}</Link>
          </li>
        ))}
      </ul>
    </section>
  )
}
