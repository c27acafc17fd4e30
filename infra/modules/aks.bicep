// Target B: a cluster whose pods sign in as the processes' identities, with KEDA.
// What runs in it is in infra/k8s.
param name string
param location string
param tags object
param subnetId string
param workspaceId string
param registryName string
param workerIdentityName string
param orchestratorIdentityName string
param projectorIdentityName string
param scalerIdentityName string

resource cluster 'Microsoft.ContainerService/managedClusters@2026-05-01' = {
  name: name
  location: location
  tags: tags
  sku: { name: 'Base', tier: 'Standard' }
  identity: { type: 'SystemAssigned' }
  properties: {
    dnsPrefix: name
    disableLocalAccounts: true
    enableRBAC: true
    aadProfile: { managed: true, enableAzureRBAC: true }
    oidcIssuerProfile: { enabled: true }
    securityProfile: {
      workloadIdentity: { enabled: true }
    }
    workloadAutoScalerProfile: {
      keda: { enabled: true }
    }
    // Cilium, so that network policies are enforced and not only written.
    networkProfile: {
      networkPlugin: 'azure'
      networkPluginMode: 'overlay'
      networkDataplane: 'cilium'
      networkPolicy: 'cilium'
      loadBalancerSku: 'standard'
    }
    autoUpgradeProfile: { upgradeChannel: 'patch', nodeOSUpgradeChannel: 'NodeImage' }
    addonProfiles: {
      omsagent: {
        enabled: true
        config: { logAnalyticsWorkspaceResourceID: workspaceId, useAADAuth: 'true' }
      }
    }
    agentPoolProfiles: [
      {
        name: 'system'
        mode: 'System'
        vmSize: 'Standard_D4ds_v5'
        osType: 'Linux'
        osSKU: 'AzureLinux'
        count: 3
        enableAutoScaling: true
        minCount: 3
        maxCount: 10
        availabilityZones: ['1', '2', '3']
        vnetSubnetID: empty(subnetId) ? null : subnetId
      }
    ]
  }
}

resource worker 'Microsoft.ManagedIdentity/userAssignedIdentities@2024-11-30' existing = {
  name: workerIdentityName
}

resource orchestrator 'Microsoft.ManagedIdentity/userAssignedIdentities@2024-11-30' existing = {
  name: orchestratorIdentityName
}

resource projector 'Microsoft.ManagedIdentity/userAssignedIdentities@2024-11-30' existing = {
  name: projectorIdentityName
}

resource scaler 'Microsoft.ManagedIdentity/userAssignedIdentities@2024-11-30' existing = {
  name: scalerIdentityName
}

resource workerPods 'Microsoft.ManagedIdentity/userAssignedIdentities/federatedIdentityCredentials@2024-11-30' = {
  parent: worker
  name: 'pods'
  properties: {
    issuer: cluster.properties.oidcIssuerProfile.issuerURL
    subject: 'system:serviceaccount:oneeffect:worker'
    audiences: ['api://AzureADTokenExchange']
  }
}

resource orchestratorPods 'Microsoft.ManagedIdentity/userAssignedIdentities/federatedIdentityCredentials@2024-11-30' = {
  parent: orchestrator
  name: 'pods'
  properties: {
    issuer: cluster.properties.oidcIssuerProfile.issuerURL
    subject: 'system:serviceaccount:oneeffect:orchestrator'
    audiences: ['api://AzureADTokenExchange']
  }
}

resource projectorPods 'Microsoft.ManagedIdentity/userAssignedIdentities/federatedIdentityCredentials@2024-11-30' = {
  parent: projector
  name: 'pods'
  properties: {
    issuer: cluster.properties.oidcIssuerProfile.issuerURL
    subject: 'system:serviceaccount:oneeffect:projector'
    audiences: ['api://AzureADTokenExchange']
  }
}

// The scaler's identity is taken by KEDA's own pods and by none of ours.
resource scalerPods 'Microsoft.ManagedIdentity/userAssignedIdentities/federatedIdentityCredentials@2024-11-30' = {
  parent: scaler
  name: 'keda'
  properties: {
    issuer: cluster.properties.oidcIssuerProfile.issuerURL
    subject: 'system:serviceaccount:kube-system:keda-operator'
    audiences: ['api://AzureADTokenExchange']
  }
}

resource registry 'Microsoft.ContainerRegistry/registries@2025-11-01' existing = {
  name: registryName
}

var pull = subscriptionResourceId('Microsoft.Authorization/roleDefinitions', '7f951dda-4ed3-4680-a7ca-43fe172d538d')

resource nodesPull 'Microsoft.Authorization/roleAssignments@2022-04-01' = {
  scope: registry
  name: guid(registry.id, cluster.id, pull)
  properties: {
    principalId: cluster.properties.identityProfile.kubeletidentity.objectId
    principalType: 'ServicePrincipal'
    roleDefinitionId: pull
  }
}

output clusterName string = cluster.name
