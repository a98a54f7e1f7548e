import look from '../generic/generic.module.css'
import { Link } from '../generic/go.tsx'
import { Recent } from '../generic/recent.tsx'
import type { PanelProps, Parts } from '../generic/resource.ts'
import { Signature, WebhookTest } from '../screens/connected/webhook.tsx'
import { t } from '../texts.ts'

/** What was sent, and what came back. */
function Deliveries({ instance, path }: PanelProps) {
  if (instance.type !== 'webhook') return null
  return (
    <Recent
      title="integrations.deliveries"
      nothing="integrations.no-deliveries"
      path={`${path}deliveries/`}
      columns={['created_at', 'event_type', 'status', 'response_status', 'attempts', 'last_attempt_at']}
      line="event_id"
    />
  )
}

function Connectors({ instance }: PanelProps) {
  if (instance.type !== 'ai_mcp') return null
  return (
    <section className={look.section}>
      <h2>{t('connectors')}</h2>
      <p>
        <Link to={`/admin/connectors?integration=${instance.uuid}`}>{t('integrations.connectors')}</Link>
      </p>
    </section>
  )
}

export const parts: Parts = { panels: [WebhookTest, Deliveries, Signature, Connectors] }
