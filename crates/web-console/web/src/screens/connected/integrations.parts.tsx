import { session } from '../../api/session.ts'
import look from '../../generic/generic.module.css'
import { Link } from '../../generic/go.tsx'
import { FieldInput } from '../../generic/input.tsx'
import { Recent } from '../../generic/recent.tsx'
import type { InputProps, PanelProps, Parts } from '../../generic/resource.ts'
import css from '../../kit/controls.module.css'
import { t } from '../../texts.ts'
import { Signature, WebhookTest } from './webhook.tsx'

/** The address of a receiver, with the reason for which most are refused. */
const ReceiverUrl = ({ field, name, value, onChange }: InputProps) => (
  <FieldInput
    field={{ ...field, description: t('integrations.url.hint') }}
    name={name}
    value={value}
    onChange={onChange}
  />
)

/** The deliveries and their answers. */
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
      {session()?.permissions?.mcp_connectors?.create === true && (
        <div>
          <Link className={css.button} to={`/admin/connectors/new?integration=${instance.uuid}`}>
            {t('create-one', { one: t('connectors.one') })}
          </Link>
        </div>
      )}
    </section>
  )
}

export const parts: Parts = { inputs: { url: ReceiverUrl }, panels: [WebhookTest, Deliveries, Signature, Connectors] }
